"""Peers that let what is seen at one context speak for those nearby, each arm by itself."""

import math
from dataclasses import dataclass

import numpy as np

from loadtest.baselines.peer import Floats, IndexTable, Task


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings:
    """The weight of the noise in a bound, and that of the distance to the neighbours."""

    exploration: float
    distance: float


class NeighbourUcb(IndexTable):
    """k-nearest-neighbour UCB (Reeve, Mellor and Brown, 2018), k chosen for each arm and context.

    Neighbours are counted in windows around the middle of each cell, from the cell alone up to all
    of [0, 1], each twice as wide as the last: of these the one with the least uncertainty,
    noise and distance together, gives the arm's index.
    """

    CELLS = 256

    def __init__(self, task: Task, settings: NeighbourSettings) -> None:
        super().__init__(cells=self.CELLS, arms=task.arms, start=math.inf)
        reaches = np.array([0, *(2**power for power in range(self.CELLS.bit_length()))])
        places = np.arange(self.CELLS)
        apart = np.abs(places[:, np.newaxis] - places)
        # By the cell of a sample: which windows (by reach, and cell in the middle) hold it.
        self._holding = (apart[:, np.newaxis] <= reaches[:, np.newaxis]).astype(np.float32)
        shape = (task.arms, len(reaches), self.CELLS)
        self._counts = np.zeros(shape, dtype=np.float32)
        self._totals = np.zeros(shape)
        widths = (reaches + 0.5) / self.CELLS
        self._bias: Floats = (settings.distance * task.lipschitz * widths)[:, np.newaxis]
        self._blur = settings.exploration * task.noise * math.sqrt(2 * task.log_horizon)

    def reward(self, x: float, arm: int, reward: float) -> None:
        """One sample more in every window that holds the context."""
        holding = self._holding[self.cell(x)]
        counts, totals = self._counts[arm], self._totals[arm]
        counts += holding
        totals += holding * reward
        with np.errstate(divide="ignore", invalid="ignore"):
            means = totals / counts
            # An empty window is infinitely uncertain, also where there is no noise.
            width = np.where(counts > 0, self._blur / np.sqrt(counts) + self._bias, math.inf)
        least = width == width.min(axis=0)
        self.index[:, arm] = np.where(least, means + width, -math.inf).max(axis=0)


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """The weight of the deviation in the index, and over which length a curve changes."""

    exploration: float
    length: float


class ProcessUcb:
    """GP-UCB with independent arms: a Gaussian process for each, on even knots, linear between.

    The kernel is Matérn's with ν = 3/2. The posterior of an arm is a mean and a covariance over
    the knots; a reward changes them by one rank, in O(knots²).
    """

    KNOTS = 65
    PRIOR_MEAN, PRIOR_DEVIATION = 0.5, 0.5

    def __init__(self, task: Task, settings: ProcessSettings) -> None:
        pieces = self.KNOTS - 1
        knots = np.arange(self.KNOTS) / pieces
        gaps = np.abs(knots[:, np.newaxis] - knots) * math.sqrt(3) / settings.length
        kernel = self.PRIOR_DEVIATION**2 * (1 + gaps) * np.exp(-gaps)
        self._covariances = np.repeat(kernel[np.newaxis], task.arms, axis=0)
        self._means = np.full((task.arms, self.KNOTS), self.PRIOR_MEAN)
        # What a curve may differ between two knots from the line; it also keeps the sums stable.
        self._variance = task.noise**2 + (0.1 * task.lipschitz / pieces) ** 2
        self._exploration = settings.exploration
        start = self.PRIOR_MEAN + self._exploration * self.PRIOR_DEVIATION
        self._index = np.full((self.KNOTS, task.arms), start)

    def select(self, x: float) -> int:
        """The arm with the largest index at the context."""
        knot, right = self._place(x)
        return int(((1 - right) * self._index[knot] + right * self._index[knot + 1]).argmax())

    def reward(self, x: float, arm: int, reward: float) -> None:
        """The arm's posterior, given one reward more."""
        knot, right = self._place(x)
        left = 1 - right
        mean, covariance = self._means[arm], self._covariances[arm]
        reach = left * covariance[knot] + right * covariance[knot + 1]
        variance = left * reach[knot] + right * reach[knot + 1] + self._variance
        gain = reach / variance
        mean += gain * (reward - left * mean[knot] - right * mean[knot + 1])
        covariance -= np.outer(gain, reach)
        deviations = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        self._index[:, arm] = mean + self._exploration * deviations

    def _place(self, x: float) -> tuple[int, float]:
        """The knot at or before `x`, and how far it is from there to the next, from 0 to 1."""
        scaled = x * (self.KNOTS - 1)
        knot = min(int(scaled), self.KNOTS - 2)
        return knot, scaled - knot
