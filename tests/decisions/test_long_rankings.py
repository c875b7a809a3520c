"""Long rankings of many eligible arms: the right arms, and no more work than there is to do."""

import asyncio
import random
from typing import Any

import pytest

from tests.support.engine import engine, learner_for, same
from tests.support.ranking import ranked

ARMS, ELIGIBLE, WANTED = 600, 100, 30
COMMON: dict[str, Any] = {"preset": "simulation", "horizon": 1000, "noise": 0.05, "arms": ARMS}
BODIES: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": ARMS, "noise": 0.05, "horizon": 1000},
    "none": COMMON | {"similarity": {"kind": "none"}, "flag_coefficient": 0.05},
    "features": COMMON
    | {"similarity": {"kind": "features", "features": [[arm % 40] for arm in range(ARMS)]}},
    "learned": COMMON | {"neighbours": 1},
}


@pytest.mark.parametrize("kind", BODIES)
def test_the_learners_arms(store_url: str, kind: str) -> None:
    """Though it is only on the way that the arms prove better looked up than met."""

    async def run() -> None:
        chance, learner = random.Random(kind), learner_for(BODIES[kind])
        async with engine(store_url, BODIES[kind]) as made:
            for step in range(12):
                x = chance.random()
                eligible = sorted(chance.sample(range(ARMS), ELIGIBLE)) if step % 3 else None
                expected = ranked(learner, x, n=WANTED, eligible=eligible)
                found = await made.rank(x, n=WANTED, decision_id=f"d{step}", eligible=eligible)
                assert [theirs.arm for theirs in found] == [mine.arm for mine in expected], step
                for mine, theirs in zip(expected, found, strict=True):
                    assert same(mine, theirs)
                    value = chance.random()
                    learner.reward(mine, value)
                    await made.reward(theirs.decision_id, value)

    asyncio.run(run())


def test_balls_are_looked_up_once(store_url: str, raw: Any) -> None:
    """Whatever is drawn in between: some balls are passed by, then each arm is looked up."""

    async def run() -> int:
        random.seed(0)
        async with engine(store_url, BODIES["none"] | {"exploration_floor": 0.5}) as made:
            eligible = sorted(random.sample(range(ARMS), ELIGIBLE))
            await made.rank(0.3, n=2, decision_id="first", eligible=eligible)
            raw.config_resetstat()
            assert len(await made.rank(0.3, n=50, decision_id="d", eligible=eligible)) == 50
            stats: dict[str, Any] = raw.info("commandstats")
            return sum(int(row["calls"]) for row in stats.values())

    passed_by, looked_up, chosen_and_recorded = 2 * 100, 2 * ELIGIBLE, 50 * 25
    assert asyncio.run(run()) < passed_by + looked_up + chosen_and_recorded
