"""What a constant policy would have earned, from the rewards that another policy got.

A decision with a reward counts for its arm with the weight 1/propensity. IPS is the sum of the
weighted rewards over all decisions: unbiased. SNIPS divides by the sum of the weights instead, so
that the level of the rewards adds no variance; its bias vanishes with the number of decisions.
Only sums are kept: a few numbers an arm, however many decisions there are.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NORMAL = 1.96  # the 97.5 % quantile


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean reward with its 95 % interval, by the normal distribution; NaN if nothing is known."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, mean: float, *, variance: float) -> "Estimate":
        """From the variance of the mean; rounding may have left it below 0."""
        half = _NORMAL * math.sqrt(max(variance, 0.0))
        return cls(mean, mean - half, mean + half)


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What playing one arm always would have earned."""

    played: int
    ips: Estimate
    snips: Estimate
    effective: float  # sample size: so many decisions of equal weight would say as much
    mean_weight: Estimate  # over all decisions; 1 is due, if the arm could be played in each


class Tally:
    """The sums over all decisions, and over those of each arm."""

    def __init__(self) -> None:
        self.decisions = 0
        self._origin = 0.0
        self._total = self._squares = 0.0
        # Of each arm: plays, Σw, Σw², Σwr, Σw²r, Σw²r².
        self._sums: Floats = np.zeros((6, 0))

    def add(self, arms: NDArray[np.intp], *, propensities: Floats, rewards: Floats) -> None:
        """Some more decisions; arms are numbered from 0 on."""
        if not len(arms):
            return
        if not self.decisions:
            # Sums of squares around some reward keep the digits that those around 0 would lose.
            self._origin = float(rewards[0])
        r = rewards - self._origin
        self.decisions += len(arms)
        self._total += float(r.sum())
        self._squares += float((r * r).sum())
        size = max(int(arms.max()) + 1, self._sums.shape[1])
        grown = np.zeros((len(self._sums), size))
        grown[:, : self._sums.shape[1]] = self._sums
        w = 1.0 / propensities
        terms = (np.ones_like(w), w, w * w, w * r, w * w * r, (w * r) ** 2)
        grown += [np.bincount(arms, weights=term, minlength=size) for term in terms]
        self._sums = grown

    def logged(self) -> Estimate:
        """What the policy that decided has earned."""
        n = self.decisions
        if not n:
            return UNKNOWN
        mean = self._total / n
        return Estimate.of(self._origin + mean, variance=_variance(mean, self._squares, n))

    def constant(self, arm: int) -> Outcome:
        """What playing this arm always would have earned; it may never have been played."""
        n = self.decisions
        if arm >= self._sums.shape[1] or not self._sums[0, arm]:
            return Outcome(played=0, ips=UNKNOWN, snips=UNKNOWN, effective=0.0, mean_weight=UNKNOWN)
        plays, w, w2, wr, w2r, w2r2 = map(float, self._sums[:, arm])
        c = self._origin
        # IPS moves with the origin: its sums are those of the rewards themselves.
        ips = (wr + c * w) / n
        ips_squares = w2r2 + 2 * c * w2r + c * c * w2
        snips = wr / w
        residuals = w2r2 - 2 * snips * w2r + snips * snips * w2
        effective = w * w / w2
        snips_variance = math.inf
        if effective > 1:
            # The mean was fitted to the same rewards: of few, the residuals come out too small.
            snips_variance = residuals / (w * w) * effective / (effective - 1)
        return Outcome(
            played=int(plays),
            ips=Estimate.of(ips, variance=_variance(ips, ips_squares, n)),
            snips=Estimate.of(c + snips, variance=snips_variance),
            effective=effective,
            mean_weight=Estimate.of(w / n, variance=_variance(w / n, w2, n)),
        )


def _variance(mean: float, squares: float, n: int) -> float:
    """That of a mean of `n` values; one value alone says nothing of it."""
    return (squares / n - mean * mean) / (n - 1) if n > 1 else math.inf
