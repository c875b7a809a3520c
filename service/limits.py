"""Cuts off a body that is larger than the service takes, before it is in memory."""

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import problem

# Anyone may send a body to /select and /reward, and only then is the key looked at.
_MOST_BYTES_OF_A_DECISION = 256 * 1024


class BodyLimit:
    """ASGI middleware: 413 for a body that is, or claims to be, longer than the limit."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is within the limit."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = self.max_bytes
        if not scope["path"].startswith("/tenants"):
            most = min(most, _MOST_BYTES_OF_A_DECISION)
        detail = f"The body of this call may have {most} bytes at the most."
        claimed = Headers(scope=scope).get("content-length", "")
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
