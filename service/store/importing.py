"""Imports a tenant: writes what an export holds under a new incarnation, out of reach.

Everything expires until the file has proven whole; what is to stay is marked by one moment, hours
ahead, at which all of it would go. So a worker that dies leaves nothing for long. What one that
dies between the end of the file and the adoption leaves is given back by any service that runs.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from service.errors import BadExport, StoreUnavailable, ZoomingError
from service.store import keys, portions
from service.store.connection import Connection
from service.store.export_file import TOO_EARLY, End, FileReader, Head
from service.store.fields import FORM
from service.store.import_checks import CheckSettings, Gathered, tenant_of
from service.store.portions import Portion
from service.store.tenant import Tenant

_STAGED_MS = 6 * 3_600_000
# Time enough to make everything permanent.
_MARGIN_MS = 3_600_000
_WRITTEN_AT_ONCE, _WRITTEN_AT_ONCE_BYTES = 200, 1 << 20
# Longer lines are decoded in a thread.
_LONG_LINE = 1 << 17
_OWN_HASH = ""


class Import:
    """One import, under one name."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._incarnation = secrets.token_hex(6)
        self._base = keys.base(name, self._incarnation)
        self._ends_at_ms = 0
        self._ends_at = 0.0
        self._reader = FileReader()
        self._waiting: list[tuple[Portion, int]] = []
        self._waiting_bytes = 0
        self._gathered = Gathered()

    async def stage(self, lines: AsyncIterator[bytes], *, check_settings: CheckSettings) -> Tenant:
        """Writes everything but the tenant's hash for good; that is staged, to be adopted."""
        await self._begin()
        own = _own_hash(await self._next(lines), await self._next(lines))
        while not isinstance(found := await self._next(lines), End):
            if not isinstance(found, Portion) or found.key == _OWN_HASH:
                raise BadExport("The lines of the file are not in the order they were written in.")
            self._gathered.take(found)
            await self._write(found)
        async for _ in lines:
            raise BadExport("The file goes on after its last line.")
        await self._flush()
        tenant = await self._stage_hash(own, check_settings)
        if self._now_ms() > self._ends_at_ms - _MARGIN_MS:
            raise StoreUnavailable("slow", "the import took too long")
        await portions.persist(self._connection, self._base, expiring_at_ms=self._ends_at_ms)
        return tenant

    async def discard(self) -> None:
        """Gives everything back, unless it was adopted."""
        with suppress(ZoomingError):  # what could not be reached now expires
            await _discard(self._connection, self._name, self._incarnation)

    async def finish(self) -> None:
        """Forgets that there was an import, now that there is a tenant."""
        async with self._connection.in_time():
            await self._connection.client.hdel(keys.IMPORTS, f"{self._name} {self._incarnation}")

    async def _begin(self) -> None:
        entry = f"{self._name} {self._incarnation}"
        self._ends_at_ms = await _server_clock_ms(self._connection) + _STAGED_MS
        self._ends_at = time.monotonic() + _STAGED_MS / 1000
        async with self._connection.in_time():
            await self._connection.client.hset(keys.IMPORTS, entry, self._ends_at_ms)

    def _now_ms(self) -> int:
        """By the server's clock, since it is the one that lets keys expire."""
        return self._ends_at_ms - round(1000 * (self._ends_at - time.monotonic()))

    async def _next(self, lines: AsyncIterator[bytes]) -> Head | Portion | End:
        try:
            line = await anext(lines)
        except StopAsyncIteration:
            raise BadExport(TOO_EARLY) from None
        if len(line) < _LONG_LINE:
            return self._reader.read(line)
        return await asyncio.to_thread(self._reader.read, line)

    async def _stage_hash(
        self, own: Mapping[bytes, bytes], check_settings: CheckSettings
    ) -> Tenant:
        # Off the event loop: a document may be a matrix of megabytes.
        tenant, fields = await asyncio.to_thread(
            tenant_of,
            own,
            self._gathered,
            name=self._name,
            incarnation=self._incarnation,
            check_settings=check_settings,
        )
        items = [[field.encode(), _bytes(value)] for field, value in fields.items()]
        staged = Portion(key="staged", type="hash", ttl_ms=None, at=0, items=items)
        # Not at the moment that marks what becomes permanent: it does so when it is adopted.
        await portions.write(self._connection, self._base, [(staged, self._ends_at_ms + 1)])
        return tenant

    async def _write(self, portion: Portion) -> None:
        """Has the portion written with others; what had a TTL keeps it."""
        expires_at_ms = self._ends_at_ms
        if portion.ttl_ms is not None:
            expires_at_ms = self._now_ms() + portion.ttl_ms
            expires_at_ms += expires_at_ms == self._ends_at_ms
        self._waiting.append((portion, expires_at_ms))
        self._waiting_bytes += sum(len(part) for item in portion.items for part in item)
        full = self._waiting_bytes > _WRITTEN_AT_ONCE_BYTES
        if full or len(self._waiting) >= _WRITTEN_AT_ONCE:
            await self._flush()

    async def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        await portions.write(self._connection, self._base, waiting)


def _own_hash(head: object, own: object) -> dict[bytes, bytes]:
    assert isinstance(head, Head)
    if head.form != FORM:
        raise BadExport(
            f"The export holds a tenant in form {head.form}; this service keeps form {FORM}. "
            "Export and import with the same release."
        )
    if not isinstance(own, Portion) or own.key != _OWN_HASH:
        raise BadExport("The second line of the file does not hold the tenant.")
    return {item[0]: item[1] for item in own.items}


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


async def finish_imports(connection: Connection) -> None:
    """Gives back what imports left that were cut short, once they are given up."""
    async with connection.in_time():
        begun = await connection.client.hgetall(keys.IMPORTS)
    now_ms = await _server_clock_ms(connection) if begun else 0
    for entry, ends_at_ms in begun.items():
        if int(ends_at_ms) < now_ms:
            await _discard(connection, *entry.decode().split())


async def _server_clock_ms(connection: Connection) -> int:
    async with connection.in_time():
        seconds, microseconds = await connection.client.time()
    return int(1000 * seconds + microseconds // 1000)


async def _discard(connection: Connection, name: str, incarnation: str) -> None:
    base = keys.base(name, incarnation)
    async with connection.in_time():
        # First of all: from here on it cannot be adopted any more.
        await connection.client.unlink(keys.derived(base, "staged"))
        standing = await connection.client.hget(keys.tenant(name), "incarnation")
    if standing is None or standing.decode() != incarnation:
        await portions.unlink(connection, base)
    async with connection.in_time():
        await connection.client.hdel(keys.IMPORTS, f"{name} {incarnation}")
