"""Exports a tenant: freezes it, reads every key of it in portions, thaws it.

The freeze is a lease that is renewed as lines are taken, so a client that stops taking them, or a
worker that dies, holds the tenant up for no longer than that.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress

from service.errors import ExportBroken, TenantFrozen, UnknownTenant, ZoomingError
from service.store import portions
from service.store.connection import Connection
from service.store.export_file import FileWriter, Head
from service.store.portions import Portion
from service.store.tenant import Tenant

log = logging.getLogger("zooming")

FREEZE_MS = 15_000
_RENEWED_SECONDS = 2.0
_DRAIN_SECONDS = 20.0
_POLL_SECONDS = 0.02
_LINES_AT_ONCE_BYTES = 1 << 18
_OF_THE_FREEZE = (b"frozen_by", b"frozen_until_ms")


class Export:
    """One export of one tenant: its lines, some at a time.

    Whoever does not take them all closes it, also before the first.
    """

    def __init__(
        self, connection: Connection, tenant: Tenant, *, clock_ms: Callable[[], int]
    ) -> None:
        self._connection = connection
        self._tenant = tenant
        self._clock_ms = clock_ms
        self._token = secrets.token_hex(8)
        self._renewed = 0.0
        self._lines = self._read()

    async def begin(self) -> None:
        """Freezes the tenant, and waits for the splits that are under way."""
        started = time.monotonic()
        try:
            under_way = await self._freeze(renew=False)
            while under_way:
                if time.monotonic() > started + _DRAIN_SECONDS:
                    raise TenantFrozen(self._tenant.name)
                await asyncio.sleep(_POLL_SECONDS)
                under_way = await self._freeze()
        except BaseException:
            await asyncio.shield(self._thaw())
            raise

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._lines

    async def __anext__(self) -> bytes:
        return await anext(self._lines)

    async def aclose(self) -> None:
        """Thaws the tenant; there are no more lines."""
        try:
            await self._lines.aclose()
        finally:
            # A generator that was never asked for a line does nothing when it is closed.
            await self._thaw()

    async def _read(self) -> AsyncGenerator[bytes]:
        """The file, some lines at a time; if it cannot be finished, the last line says why."""
        file = FileWriter()
        try:
            state = await self._state()
            yield file.head(Head(self._tenant.name, int(state[b"form"])))
            own = [[field, value] for field, value in state.items()]
            hash_ = Portion(key="", type="hash", ttl_ms=None, at=0, items=own)
            yield await asyncio.to_thread(file.portions, [hash_])
            async for some in self._portions():
                yield await asyncio.to_thread(file.portions, some)
            if await self._state() != state:
                raise ExportBroken("the tenant was changed meanwhile")
            await self._freeze()
            yield file.end()
        except ZoomingError as error:
            about = {"tenant": self._tenant.name, "error": str(error)}
            log.error("export failed", extra=about)
            yield file.error(str(error))
        finally:
            await self._thaw()

    async def _portions(self) -> AsyncIterator[list[Portion]]:
        base = self._tenant.base
        some: list[Portion] = []
        size = 0
        async for names in portions.scan(self._connection, base):
            async for portion in portions.read(self._connection, base, names):
                some.append(portion)
                size += sum(len(part) for item in portion.items for part in item)
                if size > _LINES_AT_ONCE_BYTES:
                    yield some
                    some, size = [], 0
                if time.monotonic() > self._renewed + _RENEWED_SECONDS:
                    await self._freeze()
        yield some

    async def _state(self) -> dict[bytes, bytes]:
        """The tenant's own hash, which every change of the tenant changes."""
        async with self._connection.in_time():
            state = await self._connection.client.hgetall(self._tenant.key)
        return {name: value for name, value in state.items() if name not in _OF_THE_FREEZE}

    async def _freeze(self, *, renew: bool = True) -> int:
        """Freezes the tenant, or keeps it so; how many splits are under way."""
        tenant = self._tenant
        status, *rest = await self._connection.step(
            "freeze",
            tenant.key,
            tenant.incarnation,
            self._token,
            self._clock_ms(),
            FREEZE_MS,
            int(renew),
        )
        self._renewed = time.monotonic()
        match status:
            case "gone":
                raise UnknownTenant(tenant.name)
            case "busy":
                raise TenantFrozen(tenant.name)
            case "lapsed":
                seconds = FREEZE_MS // 1000
                raise ExportBroken(f"no line was taken for {seconds} seconds")
        return int(rest[0])

    async def _thaw(self) -> None:
        # If this fails, the freeze runs out.
        with suppress(ZoomingError):
            await self._connection.step("thaw", self._tenant.key, self._token)
