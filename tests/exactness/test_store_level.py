"""The engine plays the same arm in the same ball as the learner, step by step, at store level.

Rewards come at once, late, in another order or never: whoever waits for each answer sees the
sequential algorithm.
"""

import asyncio
import math
import random
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from service.embedded import PrivateStore
from service.store import BallRecord, Store, keys
from tests.support import plays as drawn
from tests.support.audit import audit
from tests.support.engine import learner_for, new_engine, play_in_tandem
from tests.support.plays import EDGES, on_a_store

BODY = {
    "arms": 12,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.05,
    "neighbours": 2,
    "flag_coefficient": 0.05,
}
small = st.floats(0.01, 2.0)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Tenants whose balls fill and split within a few dozen trials."""
    arms = draw(st.integers(1, 9))
    rows = st.lists(st.floats(-1, 1), min_size=2, max_size=2)
    similarity = draw(
        st.sampled_from(["learned", "learned", "none", "features", "curves"]).flatmap(
            lambda kind: st.fixed_dictionaries(
                {"kind": st.just(kind)}
                | (
                    {kind: st.lists(rows, min_size=arms, max_size=arms)}
                    if kind in ("features", "curves")
                    else {}
                )
            )
        )
    )
    horizon = draw(st.integers(2, 10**6))
    # One that makes the flagging threshold a whole number, which must be met, not passed.
    whole = 0.25 / math.log(horizon)
    return {
        "arms": arms,
        "horizon": horizon,
        "noise": draw(st.sampled_from([0.0, 1e-5, 0.3])),
        "preset": draw(st.sampled_from(["paper", "simulation"])),
        "lipschitz": draw(st.sampled_from([0.5, 1.0, 3.0])),
        "buckets": draw(st.integers(1, 5)),
        "neighbours": draw(st.integers(1, 3)),
        "grid": draw(st.integers(1, 20)),
        "flag_coefficient": draw(st.one_of(st.just(whole), st.floats(0, 0.3))),
        "confidence_coefficient": draw(small),
        "diameter_coefficient": draw(small),
        "cluster_ratio": draw(small),
        "max_depth": draw(st.integers(1, 6)),
        "patience": draw(st.integers(1, 4)),
        "sampling": draw(st.sampled_from(["round_robin", "sequential"])),
        "similarity": similarity,
    }


@on_a_store(examples=60)
@given(
    body=configurations(),
    plays=drawn.plays,
    chance=st.randoms(use_true_random=False),
    delays=drawn.delays,
)
def test_any_configuration_any_order_of_rewards(
    store_url: str, body: dict[str, Any], plays: list[float], chance: random.Random, delays: str
) -> None:
    """One hundred and more splits in all kinds of balls, over the examples."""

    async def run() -> None:
        store = Store(store_url)
        try:
            await check_play(store_url, store, body, plays * 3, chance, delays)
        finally:
            await store.close()

    asyncio.run(run())


async def check_play(
    url: str,
    store: Store,
    body: dict[str, Any],
    plays: list[float],
    chance: random.Random,
    delays: str,
) -> None:
    """Plays all contexts; each step, some of the rewards that are due are handed in."""
    made, learner = await new_engine(store, body), learner_for(body)
    await play_in_tandem(made, learner, plays, chance, delays)
    mine = {ball.id: ball for ball in learner.balls if ball.phase != "split"}
    partition = {ball.id: ball for ball in await store.partition(made.tenant)}
    with redis.Redis.from_url(url) as client:
        packed = client.hgetall(keys.derived(made.tenant.base, "balls"))
    records = {int(ball): BallRecord.unpack(record) for ball, record in packed.items()}
    assert partition.keys() == mine.keys()
    for ball, found in partition.items():
        mine_now = mine[ball]
        assert (found.phase, found.arms) == (mine_now.phase, mine_now.arms)
        record = records[ball]
        assert (record.n, record.total, record.cursor) == (
            mine_now.n,
            mine_now.total,
            mine_now.cursor,
        )


def test_on_redis_and_on_valkey(server: Path, tmp_path: Path) -> None:
    """The steps mean the same on both."""

    async def run(url: str) -> None:
        store = Store(url)
        try:
            for delays in ("in step", "late", "lost"):
                chance = random.Random(delays)
                plays = [chance.random() for _ in range(300)]
                await check_play(url, store, BODY, plays, chance, delays)
        finally:
            await store.close()

    with PrivateStore(tmp_path / "data") as private:
        asyncio.run(run(private.url))
        with redis.Redis.from_url(private.url) as client:
            assert audit(client) == 3


@pytest.mark.parametrize("x", EDGES)
def test_every_dyadic_edge_lies_in_the_interval_to_its_right(store_url: str, x: float) -> None:
    """`x` = 1 alone belongs to the interval on its left."""

    async def run() -> None:
        store = Store(store_url)
        try:
            body = {
                "arms": 2,
                "preset": "simulation",
                "horizon": 2,
                "noise": 0.0,
                "neighbours": 1,
                "flag_coefficient": 0.0,
            }
            await check_play(store_url, store, body, [x] * 40, random.Random(0), "in step")
        finally:
            await store.close()

    asyncio.run(run())
