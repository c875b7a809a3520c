"""What `zooming simulate --scales` plays: raw contexts that are skewed, behind different scales.

A raw context is drawn through its distribution's quantile function, so its true quantile is known.
The arms' means are curves over that quantile, or over the raw value itself (between the quantiles
0.001 and 0.999, mapped to [0, 1] and clamped); the learner sees neither, but what a scale makes of
the raw context. Arms, contexts and chance come from the seed alone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from loadtest.environments import Environment, Floats, permuted, zigzag
from loadtest.simulation.contests import OURS, Course
from loadtest.simulation.play import Trials, marks_of
from service.algorithm import learner_for, resolve
from service.algorithm.scales import Auto, Linear, Quantiles

ARMS, NOISE = 50, 0.1
EARLIER = 200  # contexts known before the first trial, for the scales that need them
_ENDS = np.array([0.001, 0.999])


def _normal(u: Floats) -> Floats:
    inverse = NormalDist().inv_cdf
    return np.array([inverse(share) for share in u.tolist()])


def _clusters(u: Floats) -> Floats:
    """Half of the contexts around 0, half around 100, each with a standard deviation of 1."""
    second = u >= 0.5
    within = np.clip(2 * u - second, 1e-12, 1 - 1e-12)
    return np.where(second, 100.0, 0.0) + _normal(within)


# By name: the quantile function.
SKEWS: dict[str, Callable[[Floats], Floats]] = {
    "lognormal": lambda u: np.exp(_normal(u)),
    "exponential": lambda u: -np.log1p(-u),
    # Kumaraswamy's distribution with 0.5 and 5: that of Beta, nearly, with a closed form.
    "beta-like": lambda u: (1 - (1 - u) ** (1 / 5)) ** (1 / 0.5),
    "two clusters": _clusters,
}
BY = ("quantile", "value")
TRUE = "the true distribution"


class EvenAuto(Auto):
    """By quantiles alone, to see what the other part is worth."""

    evenness: ClassVar[float] = 1.0


AUTOS = {
    "`auto`, 50 contexts": Auto(contexts=50),
    "`auto`, 200 contexts": Auto(contexts=200),
    "`auto`, 1,000 contexts": Auto(contexts=1000),
    "200 contexts, quantiles alone": EvenAuto(contexts=200),
}
SCALES = ("`linear`", "`quantiles`", *AUTOS, TRUE)
LEARNERS = ("adaptive, told nothing", "simulation preset")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Contexts of one distribution, and what the reward curves are functions of."""

    skew: str
    by: str

    @property
    def name(self) -> str:
        """As a column is called."""
        return f"{self.skew}, by {self.by}"

    def raw(self, u: Floats) -> Floats:
        """The raw contexts at these quantiles."""
        return SKEWS[self.skew](np.clip(u, 1e-12, 1 - 1e-12))

    def places(self, u: Floats) -> Floats:
        """Where the reward curves are met, in [0, 1]."""
        if self.by == "quantile":
            return u
        low, high = self.raw(_ENDS)
        return np.asarray(np.clip((self.raw(u) - low) / (high - low), 0.0, 1.0))


CASES = tuple(Case(skew=skew, by=by) for by in BY for skew in SKEWS)


@dataclass(frozen=True, kw_only=True)
class Match:
    """One learner behind one scale, in one case with one seed."""

    case: Case
    scale: str
    learner: str
    horizon: int
    seed: int

    @property
    def name(self) -> str:
        """What tells the match from every other, fit for the name of a file."""
        about = f"{self.case.name} T={self.horizon} {self.scale} {self.learner} {self.seed}"
        return about.replace(" ", "_").replace("`", "")

    def environment(self) -> Environment:
        """Arms in a random order."""
        return permuted(zigzag(ARMS, noise=NOISE), seed=self.seed)

    def contexts(self, u: Floats) -> list[float]:
        """What the learner sees of the contexts at these quantiles, trial by trial."""
        if self.scale == TRUE:
            return list(u.tolist())
        raw: list[float] = self.case.raw(u).tolist()
        if self.scale in AUTOS:
            return _learned(raw, AUTOS[self.scale])
        draw = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(3)[2])
        earlier = self.case.raw(draw.random(EARLIER)).tolist()
        if self.scale == "`linear`":
            return list(map(Linear(low=min(earlier), high=max(earlier)), raw))
        return list(map(Quantiles.of(earlier), raw))


def _learned(raw: Sequence[float], auto: Auto) -> list[float]:
    """Each of the first contexts by those before it; then the scale is frozen."""
    return [scale(x) for scale, x in zip(auto.in_turn([], raw), raw, strict=True)]


def play(match: Match) -> Course:
    """From the first trial to the last, each reward at once."""
    environment, horizon = match.environment(), match.horizon
    trials = Trials.draw(environment, horizon=horizon, seed=match.seed)
    means = environment.means(match.case.places(trials.contexts))
    given = {
        "arms": environment.arms,
        "horizon": horizon,
        "noise": environment.noise,
        "lipschitz": environment.lipschitz,
    }
    learner: Any = learner_for(resolve(**given | OURS[match.learner]))
    arms = np.empty(horizon, dtype=np.intp)
    seen = match.contexts(trials.contexts)
    started = time.process_time()
    for trial, (x, chance) in enumerate(zip(seen, trials.chances.tolist(), strict=True)):
        decision = learner.select(x)
        arms[trial] = decision.arm
        mean = float(means[trial, decision.arm])
        learner.reward(decision, environment.reward_by_chance(mean, chance))
    seconds = time.process_time() - started
    lost = means.max(axis=1) - means[np.arange(horizon), arms]
    marks = np.array(marks_of(horizon))
    return Course(marks.astype(np.float64), np.cumsum(lost)[marks - 1], seconds)
