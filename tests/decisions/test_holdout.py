"""The holdout teaches nothing, and tells what learning is worth."""

import asyncio
import math
import random
import struct
from typing import Any

import numpy as np
import pytest

from service.store import RETIRED, Uplift
from service.store.records import CurveRecord
from tests.support.content import value_of
from tests.support.engine import Engine, engine, new_engine

COMMON: dict[str, Any] = {"arms": 4, "reward_window_seconds": 10}
SIMULATION: dict[str, Any] = COMMON | {"preset": "simulation", "horizon": 1000, "noise": 0.05}
BODIES: dict[str, dict[str, Any]] = {
    "adaptive": COMMON,
    "simulation": SIMULATION | {"neighbours": 1, "flag_coefficient": 0.05},
    # Arms are set aside for missing rewards: that makes a split due, at the next play.
    "impatient": SIMULATION | {"neighbours": 2, "flag_coefficient": 0.05, "patience": 1},
}


async def set_holdout(made: Engine, share: float) -> None:
    """Changes the share while the tenant runs."""
    await made.store.directory.revise(
        made.tenant, settings={"holdout": share}, now_ms=made.clock[0]
    )
    await made.refresh()


def learned(raw: Any, made: Engine) -> dict[str, Any]:
    """All that the tenant's keys know, but for decisions and their counts."""
    names = raw.keys(f"{made.tenant.base}*")
    others = ("decisions:", "pointer:", "slots", "ledger", "waiting")
    found = {}
    for name in sorted(names):
        short = name.decode().removeprefix(made.tenant.base)
        if not short.startswith(others):
            found[short] = value_of(raw, name)
    state = raw.hgetall(made.tenant.key)
    kept = ("sums", "model", "next_ball", "splits", "active", "depth", "cells_filled")
    return found | {name: state.get(name.encode()) for name in kept}


@pytest.mark.parametrize("default", [None, 0.25])
@pytest.mark.parametrize("preset", BODIES)
def test_holdout_decisions_teach_nothing(
    store_url: str, raw: Any, preset: str, default: float | None
) -> None:
    """A tenant with them, and one without, know the same to the last bit."""
    body = BODIES[preset] | {"default_reward": default, "log_entries": 0}

    async def run() -> None:
        chance = random.Random(0)
        async with engine(store_url, body) as with_them:
            without = await new_engine(with_them.store, body)
            for trial in range(120):
                x, value = chance.random(), chance.random()
                ids = [(await made.select(x)).decision_id for made in (with_them, without)]
                await set_holdout(with_them, 1.0)
                held = [(await with_them.select(chance.random())).decision_id for _ in range(3)]
                await with_them.reward(held[0], chance.random())
                await with_them.store.censor(
                    with_them.tenant, decision_id=held[1], now_ms=with_them.clock[0]
                )
                await set_holdout(with_them, 0.0)
                if trial % 10:
                    await with_them.reward(ids[0], value)
                    await without.reward(ids[1], value)
                if trial == 100:
                    await with_them.change_arm(3, RETIRED)
                    await without.change_arm(3, RETIRED)
            if default is None:  # else the order of closing, which is that of a hash, matters
                for made in (with_them, without):
                    made.clock[0] += 20_000
                    await made.close_all()
            assert learned(raw, with_them) == learned(raw, without)
            stats = await with_them.store.directory.stats(
                with_them.tenant, now_ms=with_them.clock[0]
            )
            assert stats.counters["trials_holdout"] == 360

    asyncio.run(run())


@pytest.mark.parametrize("preset", BODIES)
def test_the_default_reward_of_a_holdout_decision_counts_for_the_uplift_alone(
    store_url: str, raw: Any, preset: str
) -> None:
    """It is credited to no ball."""

    async def run() -> None:
        body = BODIES[preset] | {"default_reward": 0.25, "holdout": 1.0}
        async with engine(store_url, body) as made:
            for _ in range(20):
                await made.select(0.5)
            before = learned(raw, made)
            made.clock[0] += 20_000
            await made.close_all()
            assert learned(raw, made) == before
            stats = await made.store.directory.stats(made.tenant, now_ms=made.clock[0])
            assert stats.uplift is not None
            assert (stats.uplift.holdout.rewards, stats.uplift.holdout.mean) == (20, 0.25)
            assert (stats.reward_sum, stats.counters["rewards_holdout"]) == (0.0, 20)
            assert stats.counters["rewards_defaulted"] == 0

    asyncio.run(run())
    assert not any(CurveRecord.unpack(raw.get(key)).rewards for key in raw.keys("*:curve:*"))


# -- the uplift


def uplift_of(learned: Any, holdout: Any) -> Uplift:
    """As the store would have added them up."""
    parts = []
    for rewards in (learned, holdout):
        parts += [len(rewards), float(np.sum(rewards)), float(np.sum(np.square(rewards)))]
    return Uplift.from_sums(struct.pack("<dddddd", *parts))


@pytest.mark.parametrize("sizes", [(400, 40), (1000, 100), (60, 60)])
@pytest.mark.parametrize("kind", ["clicks", "even"])
def test_nineteen_of_twenty_intervals_hold_the_truth(sizes: tuple[int, int], kind: str) -> None:
    """Of 4,000; with so few rewards a little less than 95 %, and the count itself is off by 0.35 %.

    For clicks at 20 and 30 % and for even rewards, whose variances differ.
    """
    rng = np.random.default_rng(0)
    runs, held = 4000, 0
    truth = 0.3 - 0.2 if kind == "clicks" else 0.75 - 0.5
    for _ in range(runs):
        if kind == "clicks":
            samples = [rng.random(n) < p for n, p in zip(sizes, (0.3, 0.2), strict=True)]
            low, high = uplift_of(*samples).interval
        else:
            low, high = uplift_of(rng.uniform(0.5, 1, sizes[0]), rng.random(sizes[1])).interval
        assert low is not None
        assert high is not None
        held += low <= truth <= high
    assert 0.93 < held / runs < 0.965


def test_too_few_rewards_tell_nothing() -> None:
    """No mean without one, no interval without two."""
    nothing = uplift_of([], [])
    assert (nothing.difference, nothing.interval) == (None, (None, None))
    assert uplift_of([1.0, 2.0], []).difference is None
    single = uplift_of([1.0, 2.0], [0.5])
    assert (single.difference, single.interval) == (1.0, (None, None))
    even = uplift_of([1.0, 1.0], [0.5, 0.5])
    assert (even.difference, even.interval) == (0.5, (0.5, 0.5))


def test_rewards_far_from_zero(store_url: str) -> None:
    """A variance is not lost in the squares: a million, give or take one."""
    middle = 1e6 - 2
    body = {"arms": 2, "holdout": 0.5, "reward_range": [middle - 2, middle + 2]}

    async def run() -> tuple[Uplift | None, list[float]]:
        chance, values = random.Random(1), []
        random.seed(1)
        async with engine(store_url, body) as made:
            for _ in range(60):
                played = await made.select(0.5)
                values.append(middle + chance.uniform(-1, 1))
                await made.reward(played.decision_id, values[-1])
            stats = await made.store.directory.stats(made.tenant, now_ms=made.clock[0])
            return stats.uplift, values

    uplift, values = asyncio.run(run())
    assert uplift is not None
    spread = float(np.var(values, ddof=1))
    for sample in (uplift.learned, uplift.holdout):
        assert sample.variance is not None
        assert math.isclose(sample.variance * sample.rewards, spread, rel_tol=0.5)
