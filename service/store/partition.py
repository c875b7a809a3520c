"""Reads a tenant's partition: every ball, always a whole cover of [0, 1] times all arms."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from service.algorithm import AdaptiveConfig, Config, Interval
from service.errors import UnknownTenant
from service.store import keys
from service.store.connection import Connection
from service.store.records import BallRecord, CurveRecord, ModelRecord
from service.store.tenant import Tenant

_READ_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBall:
    """A ball as it is shown: `mean` and `ucb` once it has a reward, `fill` while it is flagged."""

    id: int
    interval: Interval
    phase: str
    arms: list[int]
    n: int
    mean: float | None
    ucb: float | None
    fill: float | None


async def read_partition(connection: Connection, tenant: Tenant) -> list[PartitionBall]:
    """Every active and flagged ball."""
    config = tenant.config
    if isinstance(config, AdaptiveConfig):
        return [ball async for ball in _curves(connection, tenant, config)]
    return [ball async for ball in _balls(connection, tenant, config)]


async def _balls(
    connection: Connection, tenant: Tenant, config: Config
) -> AsyncIterator[PartitionBall]:
    """Read in portions while splits go on.

    Ids rise from parent to child, so a ball that was seen unsplit hides its children, and one that
    was seen split has them further on.
    """
    expected = {0}
    start = 0
    while start < (end := await _next_ball(connection, tenant)):
        ids = list(range(start, min(start + _READ_AT_ONCE, end)))
        async with connection.in_time():
            pipeline = connection.client.pipeline(transaction=False)
            # In this order: a ball's arm set outlives its split, so it is there when the ball was.
            pipeline.hmget(keys.derived(tenant.base, "balls"), ids)
            pipeline.mget([keys.derived(tenant.base, "arms", ball) for ball in ids])
            records, arm_sets = await pipeline.execute()
        for ball, packed, arms in zip(ids, records, arm_sets, strict=True):
            if ball not in expected or packed is None:
                continue
            record = BallRecord.unpack(packed)
            if record.children:
                expected.update(record.children)
            elif arms is None:
                raise UnknownTenant(tenant.name)
            else:
                yield _shown(config, ball, record, np.frombuffer(arms, "<u4").tolist())
        start += len(ids)


async def _next_ball(connection: Connection, tenant: Tenant) -> int:
    async with connection.in_time():
        incarnation, end = await connection.client.hmget(tenant.key, ["incarnation", "next_ball"])
    if incarnation is None or end is None or incarnation.decode() != tenant.incarnation:
        raise UnknownTenant(tenant.name)
    return int(end)


def _shown(config: Config, ball: int, record: BallRecord, arms: list[int]) -> PartitionBall:
    parameters = config.parameters
    ucb = fill = None
    if record.phase_name == "flagged":
        owed = record.k * parameters.buckets * record.arms
        fill = record.filled / owed if owed else 1.0
    elif record.n:
        ucb = parameters.ucb(total=record.total, n=record.n, width=record.interval.width)
    return PartitionBall(
        id=ball,
        interval=record.interval,
        phase=record.phase_name,
        arms=arms,
        n=int(record.n),
        mean=record.total / record.n if record.n else None,
        ucb=ucb,
        fill=fill,
    )


async def _curves(
    connection: Connection, tenant: Tenant, config: AdaptiveConfig
) -> AsyncIterator[PartitionBall]:
    """An arm has all its balls in one record, so those tried before the first look are enough."""
    async with connection.in_time():
        incarnation, packed = await connection.client.hmget(tenant.key, ["incarnation", "model"])
    if packed is None or incarnation.decode() != tenant.incarnation:
        raise UnknownTenant(tenant.name)
    tried = ModelRecord.unpack(packed).tried
    if tried < config.arms:
        yield PartitionBall(
            id=0,
            interval=Interval(0, 0),
            phase="flagged",
            arms=list(range(tried, config.arms)),
            n=0,
            mean=None,
            ucb=None,
            fill=tried / config.arms,
        )
    for start in range(0, tried, _READ_AT_ONCE):
        arms = list(range(start, min(start + _READ_AT_ONCE, tried)))
        async with connection.in_time():
            curves = await connection.client.mget(
                [keys.derived(tenant.base, "curve", arm) for arm in arms]
            )
        if None in curves:
            raise UnknownTenant(tenant.name)
        for arm, packed in zip(arms, curves, strict=True):
            record = CurveRecord.unpack(packed)
            for ball in record.balls:
                yield PartitionBall(
                    id=ball.id,
                    interval=ball.interval,
                    phase="active",
                    arms=[arm],
                    n=round(ball.count_left + ball.count_right),
                    mean=ball.mean if record.rewards else None,
                    ucb=ball.ucb,
                    fill=None,
                )
