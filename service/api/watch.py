"""Counts and times every request, by route."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import ProcessMetrics

UNMATCHED = "unmatched"


class Watch:
    """ASGI middleware, the outermost, so that nothing is answered behind its back.

    The app's metrics are in its state: they are made when it starts, in the process that serves.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        metrics: ProcessMetrics = scope["app"].state.context.metrics
        started = time.perf_counter()
        answered = False

        def answer(status: int) -> None:
            nonlocal answered
            answered = True
            metrics.request_answered(route=_route(scope), method=scope["method"], status=status)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            # What is raised here is answered with 500 further out.
            if not answered:
                answer(500)
            raise
        finally:
            metrics.request_took(
                route=_route(scope),
                method=scope["method"],
                seconds=time.perf_counter() - started,
            )


def _route(scope: Scope) -> str:
    """The route's template; the path itself would make a label of everything that is sent."""
    if "route" in scope:
        return str(scope["route"].path)
    # The pages of the documentation are plain routes, which tell no template and have none.
    return str(scope["path"]) if "endpoint" in scope else UNMATCHED
