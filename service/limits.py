"""Cuts off a body that is larger than the service takes, before it is in memory."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import problem


class BodyLimit:
    """ASGI middleware: 413 for a body that is, or claims to be, longer than the limit."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.detail = f"A body may have {max_bytes} bytes at the most."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is within the limit."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        claimed = Headers(scope=scope).get("content-length", "")
        if claimed.isdigit() and int(claimed) > self.max_bytes:
            answer = problem(413, "Too large", self.detail, headers={"Connection": "close"})
            await answer(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise HTTPException(413, self.detail, {"Connection": "close"})
            return message

        await self.app(scope, limited, send)
