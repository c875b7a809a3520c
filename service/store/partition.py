"""Reads a tenant's partition: every ball, always a whole cover of [0, 1] times all arms."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from service.algorithm import Config, Interval
from service.errors import UnknownTenant
from service.store import keys
from service.store.connection import Connection
from service.store.records import BallRecord, CurveBall, CurveRecord
from service.store.tenant import RETIRED, Tenant

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
    if isinstance(tenant.config, Config):
        return [ball async for ball in _balls(connection, tenant, tenant.config)]
    return await _curves(connection, tenant)


async def _balls(
    connection: Connection, tenant: Tenant, config: Config
) -> AsyncIterator[PartitionBall]:
    """Read in portions while splits go on.

    Ids rise from parent to child, so a ball that was seen unsplit hides its children, and one that
    was seen split has them further on.
    """
    expected = {0, *tenant.first_balls.values()}
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
            expected.update(record.children)
            if record.phase_name != "split":
                if arms is None:
                    raise UnknownTenant(tenant.name)
                kept = _kept(tenant, arms)
                if kept:
                    yield _shown(config, ball, record, kept)
        start += len(ids)


def _kept(tenant: Tenant, packed: bytes) -> list[int]:
    """The arms of a ball; one that has been retired stays in the record until the next split."""
    arms = np.frombuffer(packed, "<u4").tolist()
    return [arm for arm in arms if tenant.arm_states[arm] != RETIRED]


async def read_ball(connection: Connection, tenant: Tenant, ball: int) -> PartitionBall | None:
    """A ball that a decision was made in, as it is now, or was when it was split."""
    async with connection.in_time():
        packed = await connection.client.hget(keys.derived(tenant.base, "balls"), ball)
        arms = await connection.client.get(keys.derived(tenant.base, "arms", ball))
    if packed is None:
        raise UnknownTenant(tenant.name)
    return _shown(tenant.zooming, ball, BallRecord.unpack(packed), _kept(tenant, arms or b""))


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


async def _curves(connection: Connection, tenant: Tenant) -> list[PartitionBall]:
    """An arm has all its balls in one record; those without one share the root."""
    async with connection.in_time():
        incarnation = await connection.client.hget(tenant.key, "incarnation")
    if incarnation is None or incarnation.decode() != tenant.incarnation:
        raise UnknownTenant(tenant.name)
    arms = [arm for arm, state in enumerate(tenant.arm_states) if state != RETIRED]
    untried: list[int] = []
    balls: list[PartitionBall] = []
    for start in range(0, len(arms), _READ_AT_ONCE):
        portion = arms[start : start + _READ_AT_ONCE]
        async with connection.in_time():
            curves = await connection.client.mget(
                [keys.derived(tenant.base, "curve", arm) for arm in portion]
            )
        for arm, packed in zip(portion, curves, strict=True):
            if packed is None:
                untried.append(arm)
                continue
            record = CurveRecord.unpack(packed)
            balls += [_shown_curve_ball(arm, record, ball) for ball in record.balls]
    if untried:
        balls.insert(0, _shown_root(untried, fill=1 - len(untried) / len(arms)))
    return balls


def _shown_curve_ball(arm: int, record: CurveRecord, ball: CurveBall) -> PartitionBall:
    return PartitionBall(
        id=ball.id,
        interval=ball.interval,
        phase="active",
        arms=[arm],
        n=round(ball.count_left + ball.count_right),
        mean=ball.mean if record.rewards else None,
        ucb=ball.ucb,
        fill=None,
    )


def _shown_root(untried: list[int], *, fill: float) -> PartitionBall:
    return PartitionBall(
        id=0,
        interval=Interval(0, 0),
        phase="flagged",
        arms=untried,
        n=0,
        mean=None,
        ucb=None,
        fill=fill,
    )


async def read_curve_ball(
    connection: Connection, tenant: Tenant, *, arm: int, x: float
) -> PartitionBall | None:
    """The ball of an arm that holds a context now; `None` if the arm has been retired."""
    async with connection.in_time():
        packed = await connection.client.get(keys.derived(tenant.base, "curve", arm))
    if packed is None:
        return None
    record = CurveRecord.unpack(packed)
    holding = [ball for ball in record.balls if ball.interval.start <= x]
    return _shown_curve_ball(arm, record, holding[-1])
