"""The regret proxies beside the truth: what `zooming_regret_upper` and `…_estimate` are worth.

The sums are those that the engine keeps, computed here from the sequential learner, which plays the
same; so a hundred thousand trials take seconds. The truth is known because the environment is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadtest.environments import Environment
from service.algorithm import AnyConfig, learner_for


@dataclass(slots=True)
class Proxies:
    """A learner watched: each decision with its bound and best mean, each reward in the sums."""

    learner: Any
    reward_sum: float = 0.0
    regret_upper: float = 0.0
    regret_estimate: float = 0.0

    def select(self, x: float) -> tuple[Any, float, float]:
        """The decision, what it could earn at the most, and the best mean of a ball (or NaN)."""
        best_mean = self.learner.best_mean(x)
        decision = self.learner.select(x)
        return decision, min(decision.ucb, 1.0), best_mean

    def reward(self, selected: tuple[Any, float, float], reward: float) -> None:
        """Credits the reward, and adds to the sums."""
        decision, bound, best_mean = selected
        self.learner.reward(decision, reward)
        self.reward_sum += reward
        self.regret_upper += bound - reward
        self.regret_estimate += 0.0 if math.isnan(best_mean) else best_mean - reward


@dataclass(frozen=True, slots=True)
class Mark:
    """The sums after so many trials, and the regret that there really was."""

    trials: int
    regret: float
    regret_upper: float
    regret_estimate: float


def replay(
    environment: Environment, config: AnyConfig, *, seed: int, marks: Sequence[int]
) -> Iterator[Mark]:
    """Plays with uniform contexts, each reward at once, up to the last of the marks."""
    rng = np.random.default_rng(seed)
    proxies = Proxies(learner_for(config))
    regret = 0.0
    for trial in range(1, marks[-1] + 1):
        x = rng.random()
        selected = proxies.select(x)
        arm = selected[0].arm
        means = environment.means(x)
        regret += float(means.max() - means[arm])
        proxies.reward(selected, environment.reward(rng, x, arm))
        if trial in marks:
            yield Mark(trial, regret, proxies.regret_upper, proxies.regret_estimate)
