"""Deletes tenants: each is unknown at once, and its memory is given back in portions.

A deletion that was cut short is finished by any service that runs. It needs nothing of the tenant
but its incarnation, and comes to its end whatever the tenant's keys hold.
"""

from service.errors import StoreUnavailable, UnknownTenant
from service.store import keys, portions
from service.store.connection import Connection


async def delete(connection: Connection, name: str, *, incarnation: str) -> None:
    """Deletes the tenant; when this returns, its memory is given back too."""
    await connection.step("condemn", keys.DELETIONS, name, incarnation)
    status, *_ = await connection.step("delete", keys.tenant(name), incarnation)
    await _finish(connection, name, incarnation)
    if status == "gone":
        raise UnknownTenant(name)


async def finish_deletions(connection: Connection, *, of: str | None) -> None:
    """Finishes the deletions, of one name or all, that were cut short."""
    async with connection.in_time():
        begun = [entry.decode() for entry in await connection.client.smembers(keys.DELETIONS)]
    for name, incarnation in (entry.split() for entry in begun):
        if of in (None, name):
            await _finish(connection, name, incarnation)


def require_answer(error: Exception) -> None:
    """Raises the error if the store has not answered: then it says nothing of the tenant."""
    if isinstance(error, StoreUnavailable) and error.kind != "refused":
        raise error


async def _finish(connection: Connection, name: str, incarnation: str) -> None:
    async with connection.in_time():
        standing = await connection.client.hget(keys.tenant(name), "incarnation")
    if standing is not None and standing.decode() == incarnation:
        return  # whoever began has not come to the deletion itself, or never will
    try:
        await _sweep(connection, name, incarnation)
    except StoreUnavailable as error:
        require_answer(error)
        # Something of the tenant is damaged. Its keys are found all the same, among all others.
        await portions.unlink(connection, keys.base(name, incarnation))
    await connection.step("forget", keys.REGISTRY, name, incarnation)
    async with connection.in_time():
        await connection.client.srem(keys.DELETIONS, f"{name} {incarnation}")


async def _sweep(connection: Connection, name: str, incarnation: str) -> None:
    status, first = "more", 0
    while status == "more":
        status, *rest = await connection.step("sweep", keys.tenant(name), incarnation, first)
        first = rest[0] if rest else 0
