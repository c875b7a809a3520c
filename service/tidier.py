"""Gives back what deletions and imports left that were cut short, at the start and now and then.

In the background: a start waits for none of it. Every worker does it; what two do at the same time
does no harm.
"""

import asyncio
import logging
from contextlib import suppress

from service.errors import StoreUnavailable
from service.store import Store

log = logging.getLogger("zooming")

_TICK_SECONDS = 600.0


class Tidier:
    """This worker's share of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins at once."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Leaves the rest to others, or to the next start."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            for tidy in (self._store.directory.finish_deletions, self._store.finish_imports):
                try:
                    await tidy()
                except StoreUnavailable as error:
                    log.warning("not tidied up", extra={"error": str(error)})
                except Exception:
                    log.exception("not tidied up")
            await asyncio.sleep(_TICK_SECONDS)
