"""Work of a worker that goes on beside its requests, again and again until it is told to stop.

What goes wrong is logged and tried again at the next round; no request ever waits for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from service.errors import StoreUnavailable

log = logging.getLogger("zooming")


class Background:
    """Rounds of some work, with a pause between them."""

    def __init__(
        self, work: Callable[[], Awaitable[None]], *, pause_seconds: float, failure: str
    ) -> None:
        self._work = work
        self._pause_seconds = pause_seconds
        self._failure = failure  # what the log says of a round that went wrong
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins the first round at once."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Cuts the present round short."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                await self._work()
            except StoreUnavailable as error:
                log.warning(self._failure, extra={"error": str(error)})
            except Exception:
                log.exception(self._failure)
            await asyncio.sleep(self._pause_seconds)
