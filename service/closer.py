"""Closes the decisions whose window is over, wherever they were made.

One worker does it at a time, for all tenants; which one is settled by a key that runs out by itself
when that worker dies. That saves work and no more: every step is safe under any number of closers,
and what nobody closed in time, since no worker was up, is closed by the next one.
"""

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress

from service.background import Background
from service.errors import StaleTenant, StoreUnavailable, TenantFrozen, UnknownTenant
from service.splitter import Splitter
from service.store import Store, Tenant

log = logging.getLogger("zooming")

TICK_SECONDS = 1.0
# The key outlives some ticks, so that a worker that is merely slow keeps it.
_HELD_MS = 4_000
# After so many steps for one tenant it is the next one's turn.
_STEPS_AT_ONCE = 100


class Closer:
    """This worker's share of the closing."""

    def __init__(self, store: Store, splitter: Splitter, *, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._splitter = splitter
        self._clock_ms = clock_ms
        self._token = secrets.token_hex(8)
        self._rounds = Background(
            self.close_all, pause_seconds=TICK_SECONDS, failure="decisions not closed"
        )

    def start(self) -> None:
        """Begins to close, a round each second."""
        self._rounds.start()

    async def stop(self) -> None:
        """Leaves it to the others."""
        await self._rounds.stop()
        with suppress(StoreUnavailable):
            await self._store.decisions.let_others_close(self._token)

    async def close_all(self) -> None:
        """Closes all that is due, if this worker is the one to do it."""
        moves = True
        while moves and await self._store.decisions.may_close(self._token, for_ms=_HELD_MS):
            due = await self._store.decisions.tenants_to_close(now_ms=self._clock_ms())
            moves = any([await self._close_some(name) for name in due])

    async def _close_some(self, name: str) -> bool:
        """Whether it is worth another try at once; one tenant's trouble is not the others'."""
        try:
            return await self._close_steps(await self._store.directory.get(name))
        except StaleTenant:
            return True
        except (TenantFrozen, UnknownTenant):
            return False  # being exported, or deleted, perhaps by a worker that died at it
        except StoreUnavailable as error:
            if error.kind != "refused":
                raise
            log.error("decisions not closed", extra={"tenant": name, "error": str(error)})
            return False

    async def _close_steps(self, tenant: Tenant) -> bool:
        slot, cursor = "", "0"
        for step in range(_STEPS_AT_ONCE):
            closed = await self._store.decisions.close(
                tenant, now_ms=self._clock_ms(), slot=slot, cursor=cursor
            )
            if closed.due is not None:
                await self._splitter.split(tenant, ball=closed.due, wait_seconds=TICK_SECONDS)
            if not closed.more:
                return step > 0
            slot, cursor = closed.slot, closed.cursor
        return True
