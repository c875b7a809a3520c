"""What both clients share: where the service is, what opens it, how a call becomes a request."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from service.client.calls import Call
from service.client.tries import Retry, Tries

Answer = TypeVar("Answer")

# What is in front of a service may close a connection that was idle for some seconds, and a
# request that is under way then is lost; so an idle connection is given up before that.
LIMITS = httpx.Limits(max_connections=100, keepalive_expiry=2.0)
RETRY = Retry()
TIMEOUT_SECONDS = 10.0
BATCH = 500


class Caller:
    """The base of both clients."""

    def __init__(self, url: str, *, key: str, retry: Retry, timeout_seconds: float) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._retry = retry
        self._timeout_seconds = timeout_seconds

    def _tries(self, call: Call[Answer]) -> Tries[Answer]:
        return Tries(call, retry=self._retry, timeout_seconds=self._timeout_seconds)

    def _request(self, call: Call[Any], *, timeout_seconds: float, content: Any) -> dict[str, Any]:
        kind = "application/x-ndjson" if content is not None else "application/json"
        return {
            "method": call.method,
            "url": self._url + call.path,
            "headers": {**self._headers, "Content-Type": kind},
            "content": call.body or content,
            "timeout": timeout_seconds,
        }


def dress(method: Any, make: Callable[..., Any]) -> None:
    """Has `help` show the call's name, text and arguments."""
    method.__name__, method.__doc__ = make.__name__, make.__doc__
    signature = inspect.signature(make)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
