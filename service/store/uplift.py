"""What learning is worth: the rewards of decisions beside those of the holdout."""

import math
import struct
from dataclasses import dataclass
from typing import Self

_SUMS = struct.Struct("<dddddd")
# 95 % of a normal distribution.
_DEVIATIONS = 1.959964


@dataclass(frozen=True, slots=True)
class Sample:
    """Rewards: how many, their mean, and the variance of the mean, each if there are enough."""

    rewards: int
    mean: float | None
    variance: float | None

    @classmethod
    def from_sums(cls, count: float, total: float, squares: float) -> Self:
        """From count, sum and sum of squares."""
        if count < 1:
            return cls(0, None, None)
        mean = total / count
        spread = max(squares - total * mean, 0.0)
        return cls(int(count), mean, spread / (count - 1) / count if count > 1 else None)


@dataclass(frozen=True, slots=True)
class Uplift:
    """How much more a decision earns than one of the holdout, with a 95 % interval."""

    learned: Sample
    holdout: Sample

    @classmethod
    def from_sums(cls, packed: bytes) -> Self:
        """From what the steps add up."""
        sums = _SUMS.unpack(packed)
        return cls(Sample.from_sums(*sums[:3]), Sample.from_sums(*sums[3:]))

    @property
    def difference(self) -> float | None:
        """The difference of the means."""
        if self.learned.mean is None or self.holdout.mean is None:
            return None
        return self.learned.mean - self.holdout.mean

    @property
    def interval(self) -> tuple[float, float] | tuple[None, None]:
        """The ends of the interval around the difference (Welch's, for many rewards)."""
        difference = self.difference
        if difference is None or self.learned.variance is None or self.holdout.variance is None:
            return None, None
        margin = _DEVIATIONS * math.sqrt(self.learned.variance + self.holdout.variance)
        return difference - margin, difference + margin
