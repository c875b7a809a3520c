"""What a tenant of 10,000 arms takes: every step of it, as wall time, step by step, one client.

The time of a step has the round trip to the store in it, and what the store does for it; that of a
change of an arm also has the reading of the tenant after it.
"""

import random
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from loadtest.bench_tenant import new_tenant
from service.api.context import clock_ms
from service.splitter import Splitter
from service.store import PAUSED, RETIRED, Store, Tenant, Wanted, new_decision_id

ARMS = 10_000
PLAYED = 500
CHANGED = 20
NO_SIMILARITY: dict[str, Any] = {
    "preset": "simulation",
    "noise": 0.1,
    "horizon": 100_000,
    "similarity": {"kind": "none"},
}
PRESETS: dict[str, dict[str, Any]] = {
    "adaptive": {"noise": 0.1, "horizon": 100_000},
    "simulation, no similarity": NO_SIMILARITY,
    "the same, exploration floor 0.5": NO_SIMILARITY | {"exploration_floor": 0.5},
}
# How many arms are eligible (none: all), and how many are wanted.
SELECTS = ((0, 1), (0, 10), (0, 50), (10, 1), (100, 1), (1000, 1), (1000, 10), (1000, 50))


async def bench_many_arms(store: Store) -> None:
    """Prints each figure as it is measured."""
    print(f"\nA tenant of {ARMS:,} arms: milliseconds a step, median and worst\n")
    for name, config in PRESETS.items():
        started = time.perf_counter()
        played = await _ManyArms.create(store, f"arms-{len(name)}", config)
        print(f"{name}\n  created{1000 * (time.perf_counter() - started):>34.0f}")
        await played.play()
        await played.change()
        tenant = played.tenant
        await store.directory.delete(tenant.name, incarnation=tenant.incarnation)


class _ManyArms:
    def __init__(self, store: Store, tenant: Tenant) -> None:
        self.tenant = tenant
        self._store = store
        self._splitter = Splitter(store, clock_ms=clock_ms)
        self._chance = random.Random(0)

    @classmethod
    async def create(cls, store: Store, name: str, config: dict[str, Any]) -> "_ManyArms":
        told = {"arms": ARMS, **config}
        return cls(store, await new_tenant(store, name, told, now_ms=clock_ms()))

    async def play(self) -> None:
        """Selects of every kind, and the rewards of the plain ones."""
        ids: list[str] = []

        async def select(eligible: int, wanted: int) -> None:
            arms = None
            if eligible:
                arms = sorted(self._chance.sample(range(ARMS), eligible))
            ids.append(new_decision_id(clock_ms()))
            call = Wanted(decision_id=ids[-1], x=self._chance.random(), eligible=arms, n=wanted)
            await self._store.select(self.tenant, call, now_ms=clock_ms())

        async def reward() -> None:
            rewarded = await self._store.reward(
                self.tenant, decision_id=ids.pop(), reward=0.5, now_ms=clock_ms()
            )
            if rewarded.due is not None:
                await self._splitter.split(self.tenant, ball=rewarded.due, wait_seconds=None)

        for eligible, wanted in SELECTS:
            of = f"of {eligible} eligible" if eligible else "of all"
            times = 20 if eligible or wanted > 1 else PLAYED
            await _measure(f"select, {wanted} {of}", partial(select, eligible, wanted), times)
            if times == PLAYED:
                await _measure("reward, and the split if it is due", reward, PLAYED)

    async def change(self) -> None:
        """Arms come and go."""
        numbers = iter(range(ARMS))

        async def add() -> None:
            await self._store.arms.add(self.tenant, f"new {next(numbers)}", now_ms=clock_ms())
            await self._refresh()

        async def change(state: int) -> None:
            arm = next(numbers)
            await self._store.arms.change(self.tenant, arm, state=state, now_ms=clock_ms())
            await self._refresh()
            await self._store.arms.settle(self.tenant, arm, now_ms=clock_ms())

        await _measure("add an arm", add, CHANGED)
        await _measure("pause an arm", partial(change, PAUSED), CHANGED)
        await _measure("retire an arm", partial(change, RETIRED), CHANGED)

    async def _refresh(self) -> None:
        self.tenant = await self._store.directory.read(self.tenant.name)


async def _measure(what: str, run: Callable[[], Awaitable[None]], times: int) -> None:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await run()
        taken.append(1000 * (time.perf_counter() - started))
    print(f"  {what:<36}{statistics.median(taken):>8.1f}{max(taken):>8.1f}")
