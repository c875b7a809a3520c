"""Of the arms that may be played the engine plays those of the learner, in the same balls.

With 200 arms, so that few arms (looked up one by one) and many (found by walking the rankings) are
both named, alone and in rankings, while arms are paused, resumed, retired and added.
"""

import asyncio
import random
from typing import Any

import pytest

from service.store import LIVE, PAUSED, RETIRED
from tests.support.engine import Engine, engine, learner_for, same
from tests.support.ranking import ranked

ARMS, STEPS = 200, 300
PAPER: dict[str, Any] = {
    "arms": ARMS,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.1,
    "flag_coefficient": 0.02,
}
chance = random.Random(0)
BODIES: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": ARMS},
    "adaptive, quiet": {"arms": ARMS, "noise": 0.01, "horizon": 100_000},
    "learned": PAPER | {"buckets": 1, "neighbours": 1, "patience": 1, "cluster_ratio": 1.0},
    "sequential": PAPER | {"buckets": 1, "neighbours": 1, "patience": 1, "sampling": "sequential"},
    "none": PAPER | {"similarity": {"kind": "none"}},
    "features": PAPER
    | {
        "similarity": {"kind": "features", "features": [[chance.random()] for _ in range(ARMS)]},
        "cluster_ratio": 0.05,
    },
}
# So few that balls at them get deep.
CONTEXTS = [0.0, 0.3, 0.5, 0.71, 1.0]


def drawn_arms(made: Engine, chance: random.Random) -> list[int] | None:
    """Some live arms, few or many; `None` for all."""
    live = list(made.tenant.live)
    most = chance.choice([1, 5, 64, 65, 150, None])
    if most is None or not live:
        return None
    return sorted(chance.sample(live, min(most, len(live))))


async def change(made: Engine, learner: Any, chance: random.Random) -> None:
    """One arm, on both sides."""
    arm = chance.choice(list(made.tenant.arms.values()))
    match chance.choice(["pause", "pause", "resume", "retire", "add"]):
        case "pause":
            learner.pause(arm)
            await made.change_arm(arm, PAUSED)
        case "resume":
            learner.resume(arm)
            await made.change_arm(arm, LIVE)
        case "retire":
            learner.retire(arm)
            await made.change_arm(arm, RETIRED)
        case _:
            number = learner.add_arm()
            await made.add_arm(f"new {number}")


@pytest.mark.parametrize("kind", BODIES)
def test_same_arms_same_balls(store_url: str, kind: str) -> None:
    async def run() -> None:
        chance, learner = random.Random(kind), learner_for(BODIES[kind])
        async with engine(store_url, BODIES[kind]) as made:
            for step in range(STEPS):
                x, n = chance.choice(CONTEXTS), chance.choice([1, 1, 1, 3, 20])
                eligible = drawn_arms(made, chance)
                expected = ranked(learner, x, n=n, eligible=eligible)
                found = await made.rank(x, n=n, decision_id=f"d{step}", eligible=eligible)
                about = f"step {step}: {n} of {eligible} at {x}"
                assert len(found) == len(expected), about
                for mine, theirs in zip(expected, found, strict=True):
                    assert same(mine, theirs), f"{about}: {mine} but {theirs}"
                    if chance.random() < 0.8:
                        value = chance.choice([0.0, 0.5, 1.0, x])
                        learner.reward(mine, value)
                        await made.reward(theirs.decision_id, value)
                if chance.random() < 0.2:
                    await change(made, learner, chance)
            assert learner.splits > 20 or kind.startswith("adaptive")

    asyncio.run(run())
