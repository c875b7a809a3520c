"""The tenants there are: create, read, revise, list, delete.

No step here runs long, however large the tenant.
"""

import asyncio
import logging
import secrets
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from service.errors import (
    Exists,
    StaleTenant,
    StoreUnavailable,
    StoreUnsuitable,
    TenantFrozen,
    UnknownTenant,
)
from service.store import keys
from service.store.access import TenantKey, live_keys, unpack_keys
from service.store.connection import Connection
from service.store.deleting import delete, finish_deletions, require_answer
from service.store.fields import FORM, first_fields, kept_fields, new_comparison, root_of
from service.store.stats import TenantStats
from service.store.tenant import Tenant, TenantCache

log = logging.getLogger("zooming")

_READ_AT_ONCE = 100
# What a tenant that is damaged leads to.
_UNREADABLE = (StoreUnavailable, ValueError, ArithmeticError, struct.error)


class Directory:
    """The list of tenants, and each tenant's own hash."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = connection.client
        self._cache = TenantCache()
        self._readings: dict[str, asyncio.Task[Tenant]] = {}

    async def verify_format(self) -> None:
        """Raises `StoreUnsuitable` if another version wrote what is there in another form."""
        async with self._connection.in_time():
            some = await self._client.hrandfield(keys.REGISTRY)
            if some is None:
                return
            fields = ["incarnation", "form"]
            incarnation, form = await self._client.hmget(keys.tenant(some.decode()), fields)
        # The first form did not say which it is.
        written = int(form or 1)
        if written != FORM and incarnation is not None:
            raise StoreUnsuitable(
                f"The store holds tenants in form {written}; this version reads and writes form "
                f"{FORM}. Use the version that wrote them, or give an empty store."
            )

    async def create(
        self,
        name: str,
        *,
        body_digest: str,
        settings: Mapping[str, Any],
        key_hash: str,
        now_ms: int,
    ) -> tuple[Tenant, bool]:
        """The tenant, and whether this call created it; its root is flagged, not yet split."""
        while True:
            tenant = _new_tenant(name, body_digest, settings, key_hash=key_hash, now_ms=now_ms)
            if await self._create(tenant):
                return tenant, True
            try:
                standing = await self.read(name)
            except UnknownTenant:
                continue  # it was deleted between the two steps
            await self._register(standing)
            return standing, False

    async def _create(self, tenant: Tenant) -> bool:
        fields = first_fields(tenant)
        # The list must never lack a tenant that is there: whoever finds a tenant standing writes
        # it to the list once more.
        await self._register(tenant)
        status, *_ = await self._connection.step(
            "create",
            tenant.key,
            tenant.incarnation,
            *root_of(tenant.config),
            tenant.created_at_ms,
            *_pairs(fields),
        )
        if status == "created":
            self._cache.put(tenant, size=len(fields["document"]))
        return bool(status == "created")

    async def revise(
        self,
        tenant: Tenant,
        *,
        now_ms: int,
        settings: Mapping[str, Any] | None = None,
        keys: Sequence[TenantKey] | None = None,
    ) -> Tenant:
        """The tenant with settings or keys changed, and without the keys that have expired.

        Raises `StaleTenant` if the tenant was changed since it was read.
        """
        revision = f"{tenant.incarnation}.{secrets.token_hex(6)}"
        live = live_keys(tenant.keys if keys is None else keys, now_ms=now_ms)
        revised = tenant.revised(revision, settings=settings or {}, keys=live)
        # Off the event loop: a document may be a matrix of megabytes.
        kept = await asyncio.to_thread(kept_fields, revised)
        if bool(tenant.settings["holdout"]) != bool(revised.settings["holdout"]):
            kept["comparison"] = new_comparison(revised)
        status, *_ = await self._connection.step(
            "revise", tenant.key, tenant.revision, revision, *_pairs(kept)
        )
        self.forget(tenant.name)
        if status != "revised":
            raise StaleTenant(tenant.name)
        self._cache.put(revised, size=len(kept["document"]))
        return revised

    async def adopt(self, tenant: Tenant) -> None:
        """Makes the tenant of what was imported under its incarnation."""
        await self._register(tenant)
        status, *_ = await self._connection.step("adopt", tenant.key, tenant.incarnation)
        if status == "adopted":
            return
        try:
            await self._register(await self.read(tenant.name))
        except UnknownTenant:
            await self._connection.step("forget", keys.REGISTRY, tenant.name, tenant.incarnation)
        if status == "gone":
            raise StoreUnavailable("gone", "what was imported has gone")
        raise Exists(tenant.name)

    async def get(self, name: str) -> Tenant:
        """The tenant as last read; a step made with an outdated one is refused as stale."""
        return self._cache.get(name) or await self.read(name)

    async def current(self, name: str) -> Tenant:
        """The tenant as it is now; what is remembered of it serves while it has not changed."""
        while True:
            async with self._connection.in_time():
                revision = await self._client.hget(keys.tenant(name), "revision")
            found = self._cache.get(name)
            if found is None or found.revision.encode() != revision:
                found = await self.read(name)
            if found.revision.encode() == revision:
                return found  # else that reading may have begun before this call

    def cached_keys(self, name: str) -> tuple[TenantKey, ...]:
        """The keys that the tenant had when it was last read."""
        cached = self._cache.get(name)
        return () if cached is None else cached.keys

    async def read_keys(self, name: str) -> tuple[TenantKey, ...]:
        """The keys that the tenant has; none when there is no such tenant."""
        async with self._connection.in_time():
            packed = await self._client.hget(keys.tenant(name), "keys")
        return () if packed is None else unpack_keys(packed)

    async def read(self, name: str) -> Tenant:
        """The tenant from the store; whoever asks for it meanwhile waits for the same reading."""
        reading = self._readings.get(name)
        if reading is None:
            reading = asyncio.create_task(self._read(name))
            self._readings[name] = reading
            reading.add_done_callback(lambda _: self._readings.pop(name, None))
        return await asyncio.shield(reading)

    async def _read(self, name: str) -> Tenant:
        fields = ["incarnation", "revision", "keys", "document"]
        while True:
            async with self._connection.in_time():
                found = await self._client.hmget(keys.tenant(name), fields)
            if None in found:
                self.forget(name)
                raise UnknownTenant(name)
            incarnation, revision, packed_keys, document = found
            base = keys.base(name, incarnation.decode())
            async with self._connection.in_time():
                pipeline = self._client.pipeline(transaction=False)
                pipeline.hgetall(keys.derived(base, "catalogue"))
                pipeline.get(keys.derived(base, "states"))
                pipeline.hget(keys.tenant(name), "revision")
                added, states, revision_then = await pipeline.execute()
            if revision_then == revision:
                break  # else the catalogue may be of another revision than the rest
        # Off the event loop: a document may be a matrix of megabytes.
        tenant = await asyncio.to_thread(
            Tenant.from_document,
            name=name,
            incarnation=incarnation.decode(),
            revision=revision.decode(),
            keys=packed_keys,
            document=document,
            added=added,
            states=states or b"",
        )
        self._cache.put(tenant, size=len(document))
        return tenant

    def fresh(self, tenant: Tenant, reply: list[Any]) -> list[Any]:
        """The reply of a step, unless the tenant has changed since it was read, or is frozen."""
        if reply[0] in ("stale", "unknown_tenant"):
            self.forget(tenant.name)
            raise StaleTenant(tenant.name)
        if reply[0] == "frozen":
            raise TenantFrozen(tenant.name)
        return reply

    def forget(self, name: str) -> None:
        """Drops what was remembered of the tenant, so that it is read again."""
        self._cache.drop(name)

    async def names(self) -> list[str]:
        """The tenants there are, in the order of their names."""
        listed = await self._listed()
        async with self._connection.in_time():
            pipeline = self._client.pipeline(transaction=False)
            for name in listed:
                pipeline.exists(keys.tenant(name))
            present = await pipeline.execute()
        return [name for name, there in zip(listed, present, strict=True) if there]

    async def stats(self, tenant: Tenant, *, now_ms: int) -> TenantStats:
        """The tenant's counters, at one moment."""
        status, *reply = await self._connection.step("stats", tenant.key, tenant.incarnation)
        if status == "gone":
            raise UnknownTenant(tenant.name)
        return TenantStats.from_reply(tenant.name, reply, now_ms=now_ms)

    async def all_stats(self, *, now_ms: int) -> list[TenantStats]:
        """Every tenant's counters, in portions, so that nobody waits long meanwhile."""
        names = await self._listed()
        found: list[TenantStats] = []
        for start in range(0, len(names), _READ_AT_ONCE):
            portion = names[start : start + _READ_AT_ONCE]
            try:
                found += await self._some_stats(portion, now_ms=now_ms)
            except _UNREADABLE as error:
                require_answer(error)
                found += await self._readable_stats(portion, now_ms=now_ms)
        return found

    async def _some_stats(self, names: Sequence[str], *, now_ms: int) -> list[TenantStats]:
        calls = [(keys.tenant(name), "") for name in names]
        replies = await self._connection.same_step("stats", calls)
        return [
            TenantStats.from_reply(name, reply, now_ms=now_ms)
            for name, (status, *reply) in zip(names, replies, strict=True)
            if status == "stats"
        ]

    async def _readable_stats(self, names: Sequence[str], *, now_ms: int) -> list[TenantStats]:
        """One by one: a tenant that is damaged does not hide the others."""
        found: list[TenantStats] = []
        for name in names:
            try:
                found += await self._some_stats([name], now_ms=now_ms)
            except _UNREADABLE as error:
                require_answer(error)
                log.error("tenant not readable", extra={"tenant": name, "error": str(error)})
        return found

    async def _listed(self) -> list[str]:
        """The tenants on the list; some may just have been deleted."""
        async with self._connection.in_time():
            return sorted(name.decode() for name in await self._client.hkeys(keys.REGISTRY))

    async def incarnation(self, name: str) -> str:
        """Which of all tenants that ever had this name is there now."""
        async with self._connection.in_time():
            found = await self._client.hget(keys.tenant(name), "incarnation")
        if found is None:
            raise UnknownTenant(name)
        return str(found.decode())

    async def delete(self, name: str, *, incarnation: str) -> None:
        """Deletes the tenant; when this returns, its memory is given back too.

        (But for pointers from decision ids of the client's own making: their TTL takes them.)
        """
        try:
            await delete(self._connection, name, incarnation=incarnation)
        finally:
            self.forget(name)

    async def finish_deletions(self, *, of: str | None = None) -> None:
        """Finishes the deletions, of one name or all, that were cut short."""
        await finish_deletions(self._connection, of=of)

    async def _register(self, tenant: Tenant) -> None:
        async with self._connection.in_time():
            await self._client.hset(keys.REGISTRY, tenant.name, tenant.incarnation)


def _pairs(fields: Mapping[str, Any]) -> list[Any]:
    return [part for item in fields.items() for part in item]


def _new_tenant(
    name: str,
    body_digest: str,
    settings: Mapping[str, Any],
    *,
    key_hash: str,
    now_ms: int,
) -> Tenant:
    incarnation = secrets.token_hex(6)
    return Tenant.make(
        name=name,
        incarnation=incarnation,
        revision=f"{incarnation}.0",
        body_digest=body_digest,
        settings=settings,
        created_at_ms=now_ms,
        keys=[TenantKey.make(key_hash, now_ms=now_ms)],
    )
