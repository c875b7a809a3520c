"""A tenant that was exported and imported goes on, trial for trial, as if nothing had happened.

From a Redis to a Valkey and back again: same arm, same ball, same phase in every trial, and at the
end every byte the same that is kept of the two.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from service.store import LIVE, PAUSED, RETIRED, Rewarded, Store
from tests.support.engine import NOW_MS, Engine, counters_of, new_engine, new_name
from tests.support.transfer import export, import_file, kept

QUICK: dict[str, Any] = {
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.05,
    "neighbours": 2,
    "flag_coefficient": 0.05,
}
TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": 12},
    "adaptive, another scale": {"arms": 5, "noise": 0.3, "reward_range": [-3.0, 7.0]},
    "simulation": QUICK | {"arms": 12},
    "sequential": QUICK | {"arms": 6, "buckets": 3, "sampling": "sequential"},
    "paper": {"arms": 3, "preset": "paper", "horizon": 1000, "noise": 1e-3, "buckets": 4},
    "features": QUICK
    | {"arms": 3, "similarity": {"kind": "features", "features": [[1], [2], [9]]}},
    "names": QUICK | {"arms": ["red", "a b", "é", "😀", "}"], "log_entries": 10_000},
    "adaptive, with a log": {"arms": 6, "log_entries": 10_000, "default_reward": 0.1},
}
TRIALS = 200
# Trial -> the arm that is changed before it, and its state afterwards; `None` is a new arm.
CATALOGUE = {
    60: (0, PAUSED),
    90: None,
    120: (1, RETIRED),
    220: (0, LIVE),
    260: None,
    300: (2, PAUSED),
}

KINDS = ("redis", "valkey")
# Each tenant from one kind of store to the other; back as well, for the usual presets.
MOVES = [
    (case, KINDS[way], KINDS[1 - way])
    for number, case in enumerate(TENANTS)
    for way in ((0, 1) if case in ("adaptive", "simulation") else (number % 2,))
]


@dataclass
class Life:
    """What is played, rewarded late, on one engine or on two at the same time."""

    chance: random.Random
    open_plays: list[str] = field(default_factory=list)
    trials: int = 0

    async def play(self, engines: list[Engine], trials: int) -> None:
        """So many trials; all engines must answer alike."""
        for _ in range(trials):
            self.trials += 1
            for engine in engines:
                await self._change_catalogue(engine)
            x = self.chance.choice([0.0, 1.0, self.chance.random(), self.chance.random()])
            # Ids that tell their time slot are made by the service; these need a pointer.
            decision_id = f"mine-{self.trials}"
            same([await engine.select(x, decision_id=decision_id) for engine in engines])
            self.open_plays.append(decision_id)
            while self.open_plays and self.chance.random() < 0.5:
                place = self.chance.randrange(len(self.open_plays))
                rewarded = self.open_plays.pop(place)
                value = self.chance.uniform(-0.2, 1.2)
                same([await self._reward(engine, rewarded, value) for engine in engines])

    async def _change_catalogue(self, engine: Engine) -> None:
        match CATALOGUE.get(self.trials, ()):
            case None:
                await engine.add_arm(f"new {self.trials}")
            case (int(arm), int(state)):
                await engine.change_arm(arm, state)

    async def _reward(self, engine: Engine, decision_id: str, value: float) -> Rewarded:
        """With an attempt of its own, since that too is kept."""
        (rewarded,) = await engine.store.reward_all(
            [(engine.tenant, decision_id, value)], now_ms=engine.clock[0], attempt=self.trials
        )
        assert rewarded.status in ("applied", "ignored")  # ignored: its arm was retired
        if rewarded.due is not None:
            await engine.splitter.split(engine.tenant, ball=rewarded.due, wait_seconds=None)
        return rewarded


def same(answers: list[Any]) -> None:
    """All answers are alike."""
    for answer in answers[1:]:
        assert answer == answers[0]


@pytest.mark.parametrize("case, source, target", MOVES)
def test_both_go_on_alike(both_stores: dict[str, str], case: str, source: str, target: str) -> None:
    """Hundreds of trials, the move, hundreds of trials on both; many decisions are open at it."""

    async def run() -> None:
        here, there = Store(both_stores[source]), Store(both_stores[target])
        try:
            original = await new_engine(here, TENANTS[case])
            life = Life(random.Random(case))
            await life.play([original], TRIALS)
            assert life.open_plays
            file = await export(here, original.tenant)
            tenant = await import_file(there, new_name(), file)
            copied = Engine(there, tenant, [NOW_MS])
            before = await kept(both_stores[source], original.tenant)
            assert await kept(both_stores[target], tenant) == before
            await life.play([original, copied], TRIALS)
            after = await kept(both_stores[source], original.tenant)
            assert await kept(both_stores[target], copied.tenant) == after
            assert after != before
            assert await there.partition(copied.tenant) == await here.partition(original.tenant)
            for engine in (original, copied):
                engine.clock[0] += original.tenant.window_ms + 2 * original.tenant.slot_ms
                await engine.close_all()
            counted = await counters_of(here, original.tenant)
            assert await counters_of(there, copied.tenant) == counted
        finally:
            await here.close()
            await there.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_an_import_is_exported_the_same(both_stores: dict[str, str], kind: str) -> None:
    """All but time: the TTLs have run on."""

    async def run() -> None:
        store = Store(both_stores[kind])
        try:
            original = await new_engine(store, TENANTS["simulation"])
            await Life(random.Random(0)).play([original], 100)
            tenant = await import_file(store, new_name(), await export(store, original.tenant))
            again = await import_file(store, new_name(), await export(store, tenant))
            assert await kept(both_stores[kind], again) == await kept(both_stores[kind], tenant)
            for one in (original.tenant, tenant, again):
                await store.directory.delete(one.name, incarnation=one.incarnation)
        finally:
            await store.close()

    asyncio.run(run())
