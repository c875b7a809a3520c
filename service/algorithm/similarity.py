"""Where distances between arms come from: the paper's four systems.

A similarity turns the arms of a ball into *profiles*, one row an arm, whose mean or plain squared
differences are the squared distances. `learned` profiles come from samples; those of `curves` and
`features` were given, and `none` has no profiles at all: every arm is its own cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Learned:
    """Distances are estimated from the samples of the flagged phase (Approx-Zooming)."""

    needs_samples: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Reward curves are given on an even grid over [0, 1] (With-True-Reward-Function)."""

    values: Floats
    needs_samples: ClassVar[bool] = False

    def profiles(self, arms: NDArray[np.intp], z: Floats) -> Floats:
        """The arms' curves at `z`, linear between the points given."""
        points = self.values.shape[1]
        if points == 1:
            return np.repeat(self.values[arms], len(z), axis=1)
        place = np.clip(z, 0.0, 1.0) * (points - 1)
        left = np.minimum(place.astype(np.intp), points - 2)
        lower = self.values[np.ix_(arms, left)]
        upper = self.values[np.ix_(arms, left + 1)]
        return np.asarray(lower + (upper - lower) * (place - left))


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Arm features are given (With-Similarity-Metric)."""

    values: Floats
    needs_samples: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Unrelated:
    """No two arms are alike (With-No-Arm-Similarity)."""

    needs_samples: ClassVar[bool] = False


Similarity = Learned | Curves | Features | Unrelated


def similarity_from(body: Mapping[str, Any]) -> Similarity:
    """The similarity that a tenant's configuration describes."""
    match body["kind"]:
        case "curves":
            return Curves(np.asarray(body["curves"], dtype=np.float64))
        case "features":
            return Features(np.asarray(body["features"], dtype=np.float64))
        case "none":
            return Unrelated()
        case _:
            return Learned()
