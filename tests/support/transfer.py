"""Moves tenants between stores, and compares all that is kept of two of them."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from service.api.stored_settings import check_settings
from service.store import Store, Tenant, lines_of, portions
from service.store.connection import Connection

_OF_THE_TENANT = {b"incarnation", b"revision"}


def wall_clock_ms() -> int:
    """Now; a freeze is a matter of real time."""
    return time.time_ns() // 1_000_000


async def export(store: Store, tenant: Tenant) -> bytes:
    """The whole file."""
    lines = await store.export(tenant, clock_ms=wall_clock_ms)
    return b"".join([some async for some in lines])


async def import_file(store: Store, name: str, file: bytes) -> Tenant:
    """The tenant made of the file."""

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(file), 1000):
            yield file[start : start + 1000]

    return await store.import_tenant(name, lines=lines_of(chunks()), check_settings=check_settings)


async def kept(url: str, tenant: Tenant) -> dict[str, Any]:
    """All that the store has of the tenant, but for what tells one incarnation from another."""
    connection = Connection(url)
    found: dict[str, Any] = defaultdict(set)
    try:
        async for names in portions.scan(connection, tenant.base):
            async for portion in portions.read(connection, tenant.base, names):
                # Where a hash is cut into portions is up to the server.
                at = portion.at if portion.type == "string" else 0
                # The ids of the log's entries are of the server's making.
                first = 1 if portion.type == "stream" else 0
                found[portion.key].update((at, *item[first:]) for item in portion.items)
        state = await connection.client.hgetall(tenant.key)
    finally:
        await connection.close()
    return found | {
        field.decode(): value for field, value in state.items() if field not in _OF_THE_TENANT
    }
