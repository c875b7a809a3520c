"""When a call is sent again, and when it is not: for both clients, and without sending anything.

A call that certainly was not done (no connection) is always sent again. One that may have been done
(an answer lost, a 503) is sent again unless the call says `once`.
"""

import random
import time
from dataclasses import dataclass
from typing import Generic, Self, TypeGuard, TypeVar

import httpx

from service.client.answers import Problem
from service.client.calls import Call, read_as
from service.client.errors import NoAnswer, Unreadable, ZoomingClientError, kind_of

Answer = TypeVar("Answer")

# Besides 503: what a proxy says when it did not reach the service, or was not answered.
_PASSING = (502, 503, 504)
_LONGEST_TEXT = 200
_MOST_DOUBLINGS = 60  # beyond any wait, and within the floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and how long in all, a call is tried; waits double up to the longest."""

    tries: int = 10
    seconds: float = 30.0
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 5.0

    def wait_seconds(self, failures: int, *, at_least: float) -> float:
        """Full jitter, so that clients that failed together do not come back together."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        most = min(self.longest_wait_seconds, self.first_wait_seconds * 2.0**doublings)
        return at_least + random.uniform(0, most)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    content: bytes
    retry_after_seconds: float = 0.0

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """From what httpx has read."""
        asked = response.headers.get("Retry-After", "")  # a proxy's may be a date
        seconds = float(asked) if asked.isdecimal() else 0.0
        return cls(response.status_code, response.content, seconds)


@dataclass(frozen=True, slots=True)
class NoReply:
    """Nothing came back; unless `sent`, the service certainly saw nothing of it."""

    reason: str
    sent: bool
    passing: bool = True  # it may be better the next time

    @classmethod
    def of(cls, error: httpx.RequestError) -> Self:
        """From what httpx says."""
        unsent = httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout
        passing = httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError
        return cls(
            str(error) or type(error).__name__,
            sent=not isinstance(error, unsent),
            passing=isinstance(error, passing),
        )


class Tries(Generic[Answer]):
    """The tries of one call."""

    def __init__(self, call: Call[Answer], *, retry: Retry, timeout_seconds: float) -> None:
        self._call, self._retry = call, retry
        self._timeout_seconds = timeout_seconds
        self._deadline = time.monotonic() + retry.seconds
        self._count = 0
        self._maybe_done = False

    @property
    def timeout_seconds(self) -> float:
        """How long the next try may take."""
        return min(self._timeout_seconds, max(0.001, self._deadline - time.monotonic()))

    def is_done(self, outcome: Reply | NoReply) -> TypeGuard[Reply]:
        """Whether the call was done; else `wait_after` tells what is next."""
        if isinstance(outcome, NoReply):
            return False
        # A deletion that was done by an earlier try, whose answer was lost, finds nothing.
        gone = outcome.status == 404 and self._call.method == "DELETE" and self._maybe_done
        return 200 <= outcome.status < 300 or gone

    def wait_after(self, outcome: Reply | NoReply) -> float:
        """Seconds until the next try; raises when there is to be none."""
        self._count += 1
        error = self._error(outcome)
        if not self._may_repeat(outcome):
            raise error
        asked = outcome.retry_after_seconds if isinstance(outcome, Reply) else 0.0
        wait = self._retry.wait_seconds(self._count, at_least=asked)
        if self._count >= self._retry.tries or time.monotonic() + wait > self._deadline:
            raise error
        return wait

    def read(self, reply: Reply) -> Answer:
        """The answer of a call that is done."""
        try:
            return self._call.read(reply.content)
        except ValueError as error:
            raise Unreadable(
                f"{self._call.method} {self._call.path} was answered with what the service never "
                "says. Is this its address, and is it as new as this client?",
                status=reply.status,
            ) from error

    def _may_repeat(self, outcome: Reply | NoReply) -> bool:
        if isinstance(outcome, Reply):
            passing, sent = outcome.status in _PASSING, True
        else:
            passing, sent = outcome.passing, outcome.sent
        self._maybe_done = self._maybe_done or sent
        return passing and not (sent and self._call.once)

    def _error(self, outcome: Reply | NoReply) -> ZoomingClientError:
        call = self._call
        not_again = f" It was not sent again: {call.once}" if call.once else ""
        if isinstance(outcome, NoReply):
            tries = "" if self._count == 1 else f" after {self._count} tries"
            return NoAnswer(
                f"{call.method} {call.path} was not answered{tries}: {outcome.reason}."
                + (not_again if outcome.sent else "")
            )
        problem = _problem(outcome)
        doubtful = outcome.status in _PASSING
        return kind_of(outcome.status)(
            problem.detail + (not_again if doubtful else ""), status=outcome.status, problem=problem
        )


def _problem(reply: Reply) -> Problem:
    try:
        return read_as(Problem, reply.content)
    except ValueError:  # something before the service answers in its own way
        text = reply.content[:_LONGEST_TEXT].decode(errors="replace")
        title = httpx.codes.get_reason_phrase(reply.status) or "Error"
        return Problem(title=title, status=reply.status, detail=text or title)
