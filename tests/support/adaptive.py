"""A learner of the preset `adaptive`, and trials for it."""

from typing import Any

import numpy as np

from loadtest.environments import Environment
from service.algorithm import AdaptiveConfig, AdaptiveLearner


def learner(arms: int = 3, **given: object) -> AdaptiveLearner:
    """One that is told nothing else."""
    return AdaptiveLearner(AdaptiveConfig.resolve(arms=arms, **given))


def played(made: Any, environment: Environment, trials: int, seed: int = 0) -> float:
    """Plays so many trials, each reward at once; the regret."""
    rng = np.random.default_rng(seed)
    regret = 0.0
    for x in rng.random(trials).tolist():
        decision = made.select(x)
        means = environment.means(x)
        regret += float(means.max() - means[decision.arm])
        made.reward(decision, environment.reward(rng, x, decision.arm))
    return regret
