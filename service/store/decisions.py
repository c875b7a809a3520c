"""Decisions after their select: look at one, close those whose window is over, read the log."""

from dataclasses import dataclass

from service.errors import StaleTenant, UnknownTenant
from service.store import keys
from service.store.connection import Connection
from service.store.directory import Directory
from service.store.partition import PartitionBall, read_ball, read_curve_ball
from service.store.records import DecisionRecord
from service.store.tenant import Tenant

_LOOKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Closed:
    """What a step of closing did, and while there is `more` to do, where to go on.

    The ball that is `due` for a split is to be split before that.
    """

    more: bool
    slot: str = ""
    cursor: str = "0"
    due: int | None = None


class Decisions:
    """The decisions of all tenants."""

    def __init__(self, connection: Connection, directory: Directory) -> None:
        self._connection = connection
        self._directory = directory

    async def read(
        self, tenant: Tenant, decision_id: str, *, now_ms: int
    ) -> tuple[DecisionRecord, PartitionBall | None] | None:
        """A decision and its ball as it is now, if that is still there; `None` if it is unknown.

        Raises `StaleTenant` if it names an arm that was added since the tenant was read.
        """
        record = await self._record(tenant, decision_id, tenant.slot_of(decision_id), now_ms=now_ms)
        if record is None:
            async with self._connection.in_time():
                pointer = keys.derived(tenant.base, "pointer", decision_id)
                slot = await self._connection.client.get(pointer)
            found = "" if slot is None else slot.decode()
            record = await self._record(tenant, decision_id, found, now_ms=now_ms)
        if record is None:
            return None
        runner_up = record.runner_up if tenant.settings["preset"] == "adaptive" else 0
        if max(record.arm, runner_up) >= len(tenant.arm_names):
            raise StaleTenant(tenant.name)
        return record, await self._ball_of(tenant, record)

    async def _record(
        self, tenant: Tenant, decision_id: str, slot: str, *, now_ms: int
    ) -> DecisionRecord | None:
        """What a slot has of the decision, unless that is past."""
        if not slot:
            return None
        async with self._connection.in_time():
            decisions = keys.derived(tenant.base, "decisions", slot)
            packed = await self._connection.client.hget(decisions, decision_id)
        record = None if packed is None else DecisionRecord.unpack(packed)
        if record is None or now_ms > record.at_ms + tenant.window_ms + tenant.retention_ms:
            return None
        return record

    async def _ball_of(self, tenant: Tenant, record: DecisionRecord) -> PartitionBall | None:
        if tenant.settings["preset"] == "adaptive":
            return await read_curve_ball(self._connection, tenant, arm=record.arm, x=record.x)
        return await read_ball(self._connection, tenant, record.ball)

    async def may_close(self, token: str, *, for_ms: int) -> bool:
        """Whether this closer is the one, and will be for so long."""
        async with self._connection.in_time():
            client = self._connection.client
            if await client.set(keys.CLOSER, token, nx=True, px=for_ms):
                return True
            holder = await client.get(keys.CLOSER)
            # If another took it at this very moment, both close for a while, which does no harm.
            return holder == token.encode() and bool(await client.pexpire(keys.CLOSER, for_ms))

    async def let_others_close(self, token: str) -> None:
        """Gives it up, if this closer is the one."""
        async with self._connection.in_time():
            if await self._connection.client.get(keys.CLOSER) == token.encode():
                await self._connection.client.delete(keys.CLOSER)

    async def tenants_to_close(self, *, now_ms: int) -> list[str]:
        """The tenants that have decisions to be closed or forgotten."""
        client = self._connection.client
        async with self._connection.in_time():
            listed = [name.decode() for name in await client.hkeys(keys.REGISTRY)]
        due: list[str] = []
        for start in range(0, len(listed), _LOOKED_AT_ONCE):
            portion = listed[start : start + _LOOKED_AT_ONCE]
            async with self._connection.in_time():
                pipeline = client.pipeline(transaction=False)
                for name in portion:
                    # The list may name an incarnation that never came to be.
                    pipeline.hget(keys.tenant(name), "incarnation")
                found = zip(portion, await pipeline.execute(), strict=True)
                standing = [(name, each.decode()) for name, each in found if each is not None]
                pipeline = client.pipeline(transaction=False)
                for tenant in standing:
                    slots = keys.derived(keys.base(*tenant), "slots")
                    pipeline.zrange(slots, 0, 0, withscores=True)
                firsts = await pipeline.execute()
            due += [
                name
                for (name, _), first in zip(standing, firsts, strict=True)
                if first and first[0][1] <= now_ms
            ]
        return due

    async def close(self, tenant: Tenant, *, now_ms: int, slot: str, cursor: str) -> Closed:
        """Closes, or forgets, some of the decisions for which it is time."""
        reply = await self._connection.step(
            "close", tenant.key, tenant.revision, now_ms, slot, cursor, rule=tenant.rule
        )
        status, *rest = self._directory.fresh(tenant, reply)
        if status == "idle":
            return Closed(False)
        last_slot, last_cursor, due = rest
        return Closed(
            True, last_slot.decode(), last_cursor.decode(), None if due == b"" else int(due)
        )

    async def log(
        self, tenant: Tenant, *, after: str, count: int
    ) -> list[tuple[str, dict[str, str]]]:
        """Up to so many entries of the log after the one named, each with its fields."""
        async with self._connection.in_time():
            standing = await self._connection.client.hget(tenant.key, "incarnation")
            found = await self._connection.client.xrange(
                keys.derived(tenant.base, "log"), min=f"({after}" if after else "-", count=count
            )
        if standing is None or standing.decode() != tenant.incarnation:
            raise UnknownTenant(tenant.name)
        return [
            (entry.decode(), {name.decode(): value.decode() for name, value in fields.items()})
            for entry, fields in found
        ]
