"""The regret proxies: kept by the engine as they are defined, and held against the truth."""

import asyncio
import math
import random
from typing import Any

import pytest

from loadtest.environments import (
    Environment,
    bernoulli,
    continuum,
    finite_types,
    permuted,
    zigzag,
)
from loadtest.proxies import Proxies, replay
from service.algorithm import resolve
from service.store import TenantStats
from tests.support.engine import NOW_MS, engine, learner_for

TRIALS = 600
BODIES: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": 8},
    "learned": {
        "arms": 8,
        "preset": "simulation",
        "horizon": 5000,
        "noise": 0.1,
        "neighbours": 1,
        "flag_coefficient": 0.1,
    },
    "none": {
        "arms": 5,
        "preset": "simulation",
        "horizon": 5000,
        "noise": 0.05,
        "similarity": {"kind": "none"},
    },
    "paper": {"arms": 2, "horizon": 5000, "noise": 0.001, "preset": "paper", "buckets": 8},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("late", [0, 40])
def test_the_engine_keeps_the_sums_as_defined(
    store_url: str, body: dict[str, Any], late: int
) -> None:
    """Bit for bit, with rewards at once and with rewards forty trials late in any order."""
    chance = random.Random(late)
    proxies = Proxies(learner_for(body))

    async def run() -> TenantStats:
        async with engine(store_url, body) as made:
            owed: list[tuple[Any, str, float]] = []
            for trial in range(TRIALS + late):
                if trial < TRIALS:
                    x = chance.random()
                    played = await made.select(x)
                    owed.append((proxies.select(x), played.decision_id, chance.random()))
                if len(owed) > late or trial >= TRIALS:
                    selected, decision_id, reward = owed.pop(chance.randrange(len(owed)))
                    await made.reward(decision_id, reward)
                    proxies.reward(selected, reward)
            assert not owed
            return await made.store.directory.stats(made.tenant, now_ms=NOW_MS)

    stats = asyncio.run(run())
    assert stats.counters["splits"] > 0
    assert stats.reward_sum == proxies.reward_sum
    assert stats.regret_upper == proxies.regret_upper
    assert stats.regret_estimate == proxies.regret_estimate


ENVIRONMENTS: dict[str, Environment] = {
    "zigzag, quiet": zigzag(50, noise=1e-5),
    "zigzag": zigzag(20, noise=0.1),
    "continuum": continuum(30, noise=0.3, lipschitz=0.5),
    "types": permuted(finite_types(40, types=4, noise=0.05, lipschitz=1.0, seed=7), seed=1),
    "Bernoulli": bernoulli(zigzag(10, noise=0.0)),
    "two arms": zigzag(2, noise=0.01),
}


@pytest.mark.parametrize("preset", ["adaptive", "simulation", "paper"])
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_upper_regret_is_no_less_than_the_regret(environment: Environment, preset: str) -> None:
    """But for noise, at every mark of a run: the sum of t rewards strays by 3σ√t at the most."""
    config = resolve(
        arms=environment.arms,
        horizon=10_000,
        noise=environment.noise,
        lipschitz=environment.lipschitz,
        preset=preset,
    )
    for seed in range(2):
        for mark in replay(environment, config, seed=seed, marks=range(200, 10_001, 200)):
            slack = 3 * environment.noise * math.sqrt(mark.trials)
            assert mark.regret_upper >= mark.regret - slack, mark
