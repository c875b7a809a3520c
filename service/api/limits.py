"""Cuts off a body that is larger than the service takes, before it is in memory."""

import hmac
import re
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.context import bearer_key
from service.api.problems import problem

# A body is parsed before the key is looked at, so only whoever may create tenants may send much.
_MOST_BYTES_OF_ANYONE = 256 * 1024
# Here the key is looked at first, and the body is taken a line at a time.
_STREAMED = re.compile(r"/tenants/[^/]+/import")


class BodyLimit:
    """ASGI middleware: 413 for a body that is, or claims to be, longer than the limit."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, admin_key: str) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.admin_key = admin_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is within the limit."""
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = self.max_bytes
        if not self._may_be_large(scope["path"], headers):
            most = min(most, _MOST_BYTES_OF_ANYONE)
        detail = f"The body of this call may have {most} bytes at the most."
        claimed = headers.get("content-length", "")
        if claimed.isdigit() and int(claimed) > most:
            phrase = HTTPStatus(413).phrase
            answer = problem(413, phrase, detail, headers={"Connection": "close"})
            await answer(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, detail, {"Connection": "close"})
            return message

        await self.app(scope, limited, send)

    def _may_be_large(self, path: str, headers: Headers) -> bool:
        if not path.startswith("/tenants"):
            return False
        given = bearer_key(headers) or ""
        return not self.admin_key or hmac.compare_digest(given.encode(), self.admin_key.encode())
