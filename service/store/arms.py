"""The catalogue while a tenant runs: add, pause, resume, retire.

The change itself is one step. Under the paper's presets the balls that hold the arm are brought up
to date after it, in portions; a select that meets one before that does so itself.
"""

import secrets
from typing import Any

import numpy as np

from service.algorithm import Config, Interval
from service.errors import UnknownTenant
from service.store import keys
from service.store.children import NOWHERE, ball_record
from service.store.connection import Connection
from service.store.directory import Directory
from service.store.records import BallRecord
from service.store.tenant import Tenant

_SETTLED_AT_ONCE = 50


class Arms:
    """Changes of the catalogues of all tenants."""

    def __init__(self, connection: Connection, directory: Directory) -> None:
        self._connection = connection
        self._directory = directory

    async def add(self, tenant: Tenant, name: str, *, now_ms: int) -> None:
        """A new arm, with a ball of its own."""
        record = b""
        if isinstance(tenant.config, Config):
            record = ball_record(tenant.config, Interval(0, 0), arms=1).pack()
        await self._change("add_arm", tenant, name, record, now_ms)

    async def change(self, tenant: Tenant, arm: int, *, state: int, now_ms: int) -> None:
        """Makes an arm live, paused or retired; `settle` follows."""
        await self._change("change_arm", tenant, arm, state, now_ms)

    async def _change(self, step: str, tenant: Tenant, *args: Any) -> None:
        revision = f"{tenant.incarnation}.{secrets.token_hex(4)}"
        reply = await self._connection.step(
            step, tenant.key, tenant.revision, revision, *args, rule=tenant.rule
        )
        self._directory.fresh(tenant, reply)
        self._directory.forget(tenant.name)

    async def settle(self, tenant: Tenant, arm: int, *, now_ms: int) -> list[int]:
        """Brings the balls that hold the arm up to date; those that are due for a split then."""
        if not isinstance(tenant.config, Config):
            return []
        balls = sorted(await self._balls_of(tenant, arm))
        due: list[int] = []
        for start in range(0, len(balls), _SETTLED_AT_ONCE):
            portion = balls[start : start + _SETTLED_AT_ONCE]
            reply = await self._connection.step(
                "settle", tenant.key, tenant.revision, arm, now_ms, *portion
            )
            due += self._directory.fresh(tenant, reply)[1:]
        return due

    async def _balls_of(self, tenant: Tenant, arm: int) -> list[int]:
        """The balls that hold the arm, found from its first one along the splits."""
        client = self._connection.client
        first = tenant.first_balls.get(arm)
        level = [(0, arm) if first is None else (first, 0)]
        found: list[int] = []
        while level:
            async with self._connection.in_time():
                records = await client.hmget(
                    keys.derived(tenant.base, "balls"), [ball for ball, _ in level]
                )
            if None in records:
                raise UnknownTenant(tenant.name)
            split = []
            for (ball, position), packed in zip(level, records, strict=True):
                record = BallRecord.unpack(packed)
                if record.phase_name == "split":
                    split.append((ball, position, record))
                else:
                    found.append(ball)
            level = await self._children_of(tenant, split)
        return found

    async def _children_of(
        self, tenant: Tenant, split: list[tuple[int, int, BallRecord]]
    ) -> list[tuple[int, int]]:
        """The balls that hold these arms of split balls in either half, and their positions."""
        if not split:
            return []
        async with self._connection.in_time():
            pipeline = self._connection.client.pipeline(transaction=False)
            for ball, position, record in split:
                for half in (0, 1):
                    start = 8 * (half * record.arms + position)
                    forward = keys.derived(tenant.base, "forward", ball)
                    pipeline.getrange(forward, start, start + 7)
            entries = await pipeline.execute()
        children = []
        for place, entry in enumerate(entries):
            record = split[place // 2][2]
            if entry:
                child, position = np.frombuffer(entry, "<u4").tolist()
                if child != NOWHERE:
                    children.append((record.first + child, position))
        return children
