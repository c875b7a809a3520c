"""What is taken away from the preset `adaptive`, or told to it, for comparison."""

import numpy as np
import pytest

from loadtest.simulation.ablations import ABLATIONS, ToldAlike, ablated
from service.algorithm import AdaptiveConfig, AdaptiveLearner

CONFIG = AdaptiveConfig.resolve(arms=4, noise=0.1, horizon=1000, lipschitz=1.0)
PLACES = np.array([0.1, 0.3, 0.1 + 1e-12, 0.3])


@pytest.mark.parametrize("name", ABLATIONS)
def test_each_is_another_learner(name: str) -> None:
    """That plays all the same."""
    made = ablated(name, CONFIG, places=PLACES)
    assert type(made) is not AdaptiveLearner
    rng = np.random.default_rng(0)
    for x in rng.random(50).tolist():
        made.reward(made.select(x), rng.random())
    assert made.curves


@pytest.mark.parametrize("after", [1, 3])
def test_arms_that_are_alike_hand_their_rewards_over(after: int) -> None:
    """To the first that was told; each reward counts once, and late ones land where they flew."""
    made = ToldAlike(CONFIG, places=PLACES, after=after)
    rng = np.random.default_rng(0)
    plays = [made.select(x) for x in rng.random(200).tolist()]
    assert {play.arm for play in plays} == {0, 1, 2, 3}
    for play in plays:
        made.reward(play, 1.0 if play.arm % 2 else 0.5)
    assert made.model.rewards == len(plays)
    assert len(made.catalogue.paused) == 2
    for kind in (0, 1):
        [first] = {kind, kind + 2} - made.catalogue.paused
        rewards = sum(play.arm % 2 == kind for play in plays)
        assert made.curves[first].rewards == rewards
        assert sum(sum(ball.counts) for ball in made.curves[first].balls) == pytest.approx(rewards)
    for curve in made.curves.values():
        assert not any(sum(ball.flying) for ball in curve.balls)
