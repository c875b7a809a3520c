"""What selects and rewards take under `adaptive` beside `simulation`, as a ratio of wall times.

Two tenants on one store play the zigzag in turn, a block each, so that whatever else the machine
does meets both. The time of a step has the round trip in it, and what the store does for it.
"""

import time
from collections.abc import AsyncIterator
from statistics import median
from typing import NamedTuple

import numpy as np

from loadtest.bench_tenant import new_tenant
from loadtest.environments import zigzag
from service.api.context import clock_ms
from service.splitter import Splitter
from service.store import Store, Wanted, new_decision_id

ARMS = 50
NOISES = (1e-5, 0.1, 0.3)
BLOCK = 250
PARTS = (("first 2,500 trials", 10), ("next 5,000", 20))


class Taken(NamedTuple):
    """The seconds of a block's selects, and of its rewards."""

    selects: float
    rewards: float


async def bench_side_by_side(store: Store) -> None:
    """Prints each figure as it is measured."""
    print(f"\nadaptive beside simulation, zigzag, K = {ARMS}: times as long, median of blocks\n")
    print(f"{'':<30}{'select':>8}{'reward':>8}")
    for number, noise in enumerate(NOISES):
        ours, theirs = [_blocks(store, preset, number) for preset in ("adaptive", "simulation")]
        for part, blocks in PARTS:
            pairs = [(await anext(ours), await anext(theirs)) for _ in range(blocks)]
            selects = median(a.selects / b.selects for a, b in pairs)
            rewards = median(a.rewards / b.rewards for a, b in pairs)
            print(f"{f'σ = {noise:g}, {part}':<30}{selects:>8.2f}{rewards:>8.2f}", flush=True)


async def _blocks(store: Store, preset: str, number: int) -> AsyncIterator[Taken]:
    """One block after the other of a new tenant."""
    environment = zigzag(ARMS, noise=NOISES[number])
    told = {"arms": ARMS, "preset": preset, "horizon": 100_000, "noise": environment.noise}
    tenant = await new_tenant(store, f"{preset}-{number}", told, now_ms=clock_ms())
    splitter = Splitter(store, clock_ms=clock_ms)
    rng = np.random.default_rng(0)
    while True:
        selects = rewards = 0.0
        for x in rng.random(BLOCK).tolist():
            decision_id = new_decision_id(clock_ms())
            started = time.perf_counter()
            wanted = Wanted(decision_id=decision_id, x=x)
            played = (await store.select(tenant, wanted, now_ms=clock_ms())).choices[0]
            selects += time.perf_counter() - started
            reward = environment.reward(rng, x, played.arm)
            started = time.perf_counter()
            rewarded = await store.reward(
                tenant, decision_id=decision_id, reward=reward, now_ms=clock_ms()
            )
            rewards += time.perf_counter() - started
            if rewarded.due is not None:
                await splitter.split(tenant, ball=rewarded.due, wait_seconds=None)
        yield Taken(selects, rewards)
