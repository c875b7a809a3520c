"""Learning goes on when rewards are late, out of order, and some are lost.

The bound is stated against what a random arm and the optimum earn: in the last quarter of the run,
the mean reward must have come 80 % of the way from the one to the other. In step, the preset
`simulation` comes 91 to 99 % of the way over six seeds; a service that lost or misplaced late
rewards, or let silent arms hold up the others, stays near the random arm.
"""

import asyncio
from typing import Any

import numpy as np
import pytest

from loadtest.environments import zigzag
from tests.support.engine import engine, learner_for

ARMS, NOISE, LOST = 10, 0.05, 0.05
ENVIRONMENT = zigzag(ARMS, noise=NOISE)
MOST_OF_THE_WAY = 0.8


def body(preset: str, trials: int) -> dict[str, Any]:
    """Parameters for a short run; `adaptive` is told nothing."""
    if preset == "adaptive":
        return {"arms": ARMS}
    return {
        "arms": ARMS,
        "preset": preset,
        "horizon": trials,
        "noise": NOISE,
        "neighbours": 4,
        "flag_coefficient": 0.1,
        "diameter_coefficient": 0.5,
        "confidence_coefficient": 1.0,
    }


class Post:
    """Rewards on their way: each comes after a random delay up to twice the mean, or never."""

    def __init__(self, rng: np.random.Generator, *, delay: int) -> None:
        self.rng = rng
        self.delay = delay
        self.due: dict[int, list[tuple[Any, float]]] = {}

    def send(self, trial: int, decision: Any, x: float, arm: int) -> None:
        """Puts the reward of a play on its way."""
        reward = ENVIRONMENT.reward(self.rng, x, arm)
        if self.rng.random() >= LOST:
            arrival = trial + int(self.rng.integers(0, 2 * self.delay + 1))
            self.due.setdefault(arrival, []).append((decision, reward))

    def arriving(self, trial: int) -> list[tuple[Any, float]]:
        """What arrives now."""
        return self.due.pop(trial, [])


def progress(contexts: Any, means: list[float]) -> float:
    """How far the last quarter came from a random arm (0) to the optimum (1)."""
    quarter = len(means) // 4
    late = contexts[-quarter:]
    random_arm = ENVIRONMENT.means(late).mean()
    optimum = ENVIRONMENT.optimum(late).mean()
    return float((np.mean(means[-quarter:]) - random_arm) / (optimum - random_arm))


@pytest.mark.parametrize("delay", [0, 100, 1000])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_the_learner_still_learns(preset: str, delay: int, seed: int) -> None:
    """In memory, over two seeds; `adaptive` must do so three times as fast."""
    trials = 4_000 if preset == "adaptive" else 12_000
    rng = np.random.default_rng(seed)
    contexts, post = rng.random(trials), Post(rng, delay=delay)
    learner = learner_for(body(preset, trials))
    means = []
    for trial, x in enumerate(contexts.tolist()):
        decision = learner.select(x)
        means.append(ENVIRONMENT.means(x)[decision.arm])
        post.send(trial, decision, x, decision.arm)
        for arrived, reward in post.arriving(trial):
            learner.reward(arrived, reward)
    assert progress(contexts, means) >= MOST_OF_THE_WAY


@pytest.mark.parametrize("delay, trials", [(100, 2000), (1000, 5000)])
@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_the_engine_still_learns(store_url: str, preset: str, delay: int, trials: int) -> None:
    """On the store; late rewards find their way through the splits."""

    async def run() -> float:
        async with engine(store_url, body(preset, trials)) as made:
            rng = np.random.default_rng(0)
            contexts, post = rng.random(trials), Post(rng, delay=delay)
            means = []
            for trial, x in enumerate(contexts.tolist()):
                selected = await made.select(x)
                means.append(ENVIRONMENT.means(x)[selected.arm])
                post.send(trial, selected.decision_id, x, selected.arm)
                for arrived, reward in post.arriving(trial):
                    assert (await made.reward(arrived, reward)).status == "applied"
            return progress(contexts, means)

    assert asyncio.run(run()) >= MOST_OF_THE_WAY
