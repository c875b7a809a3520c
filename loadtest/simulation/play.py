"""One run: its trials drawn from the seed, played by the sequential learner, watched at marks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadtest.environments import Environment, Floats
from loadtest.simulation.experiments import Run
from service.algorithm import learner_for

CONTEXT_BINS = 60
QUARTERS = 4
_LINEAR_MARKS = 100
_EARLY_MARKS = 10


@dataclass(frozen=True)
class Trials:
    """The contexts, and the chance of each trial, the same for every system."""

    contexts: Floats
    chances: Floats  # standard normal, or uniform for Bernoulli rewards

    @classmethod
    def draw(cls, environment: Environment, *, horizon: int, seed: int) -> "Trials":
        """All trials of a run; contexts are uniform on [0, 1]."""
        context_seed, chance_seed = np.random.SeedSequence(seed).spawn(2)
        chance = np.random.default_rng(chance_seed)
        draw = chance.random if environment.bernoulli else chance.standard_normal
        return cls(np.random.default_rng(context_seed).random(horizon), draw(horizon))


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A run after so many trials."""

    trials: int
    average_reward: float
    regret: float
    balls: int
    depth: int
    flagged_share: float


@dataclass(frozen=True)
class Outcome:
    """What a run left: marks, and how often each arm was played where, in each quarter."""

    marks: list[Mark]
    frequencies: NDArray[np.uint32]  # quarter, context bin, arm
    arms: NDArray[np.intp]  # played in each trial


def marks_of(horizon: int) -> list[int]:
    """Evenly spaced over the run, with some more near its beginning."""
    even = np.linspace(0, horizon, _LINEAR_MARKS + 1)[1:]
    early = np.geomspace(min(10, horizon), max(horizon / _LINEAR_MARKS, 1), _EARLY_MARKS)
    return sorted({round(float(trials)) for trials in (*early, *even)} - {0})


def play(run: Run) -> Outcome:
    """Plays the run from its first trial to its last, each reward at once."""
    environment, horizon = run.setting.environment, run.setting.horizon
    trials = Trials.draw(environment, horizon=horizon, seed=run.seed)
    means = environment.means(trials.contexts)
    learner: Any = learner_for(run.config())
    arms = np.empty(horizon, dtype=np.intp)
    marks = []
    wanted = iter(marks_of(horizon))
    mark_at = next(wanted)
    earned = regret = flagged = 0.0
    best = means.max(axis=1)
    for trial, (x, chance) in enumerate(
        zip(trials.contexts.tolist(), trials.chances.tolist(), strict=True)
    ):
        decision = learner.select(x)
        mean = float(means[trial, decision.arm])
        reward = environment.reward_by_chance(mean, chance)
        learner.reward(decision, reward)
        arms[trial] = decision.arm
        earned += reward
        regret += float(best[trial]) - mean
        flagged += decision.phase == "flagged"
        if trial + 1 == mark_at:
            marks.append(
                Mark(
                    trials=mark_at,
                    average_reward=earned / mark_at,
                    regret=regret,
                    balls=learner.size,
                    depth=learner.depth,
                    flagged_share=flagged / mark_at,
                )
            )
            mark_at = next(wanted, 0)
    return Outcome(marks, frequencies(trials.contexts, arms, of=environment.arms), arms)


def frequencies(contexts: Floats, arms: NDArray[np.intp], *, of: int) -> NDArray[np.uint32]:
    """How often each arm was played in each context bin, quarter by quarter."""
    return np.stack(list(_quarters(contexts, arms, of=of)))


def _quarters(contexts: Floats, arms: NDArray[np.intp], *, of: int) -> Iterator[NDArray[np.uint32]]:
    bins = np.minimum((contexts * CONTEXT_BINS).astype(np.intp), CONTEXT_BINS - 1)
    for part in np.array_split(np.arange(len(arms)), QUARTERS):
        counts = np.zeros((CONTEXT_BINS, of), dtype=np.uint32)
        np.add.at(counts, (bins[part], arms[part]), 1)
        yield counts
