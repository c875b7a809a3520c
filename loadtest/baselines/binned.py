"""Peers that cut the contexts into bins and treat each bin as a bandit of its own."""

import math
from dataclasses import dataclass, field

import numpy as np

from loadtest.baselines.peer import IndexTable, Task


@dataclass(frozen=True, kw_only=True)
class ThompsonSettings:
    """Even bins; `spread` scales the noise that the posterior assumes."""

    bins: int
    spread: float


class BinnedThompson(IndexTable):
    """Thompson sampling: a Gaussian posterior for each bin and arm, the best draw is played."""

    PRIOR_MEAN, PRIOR_DEVIATION = 0.5, 0.5

    def __init__(self, task: Task, settings: ThompsonSettings) -> None:
        super().__init__(cells=settings.bins, arms=task.arms, start=self.PRIOR_MEAN)
        within = task.lipschitz / settings.bins
        # A curve's own change within a bin is noise to the bin: that of a uniform distribution.
        noise = settings.spread * math.sqrt(task.noise**2 + within**2 / 12)
        self._weight = (self.PRIOR_DEVIATION / noise) ** 2  # of one reward, beside the prior's 1
        self._precision = np.ones_like(self.index)
        self._deviation = np.full_like(self.index, self.PRIOR_DEVIATION)
        self._rng = task.rng()

    def select(self, x: float) -> int:
        """The arm with the best draw."""
        row = self.cell(x)
        draws = self._rng.standard_normal(self.index.shape[1])
        return int((self.index[row] + self._deviation[row] * draws).argmax())

    def reward(self, x: float, arm: int, reward: float) -> None:
        """The posterior of the bin's arm, from one reward more."""
        at = self.cell(x), arm
        precision = self._precision[at] + self._weight
        self.index[at] += (reward - self.index[at]) * self._weight / precision
        self._precision[at] = precision
        self._deviation[at] = self.PRIOR_DEVIATION / math.sqrt(precision)


@dataclass(frozen=True, kw_only=True)
class EliminationSettings:
    """How much of the bins' width, and of the noise, an arm may be worse by and stay."""

    bias: float
    confidence: float


@dataclass(eq=False)
class _Bin:
    """A bin of the tree: its arms still in play, with their rewards."""

    width: float
    middle: float
    arms: list[int]
    turn: int = 0  # of the round robin
    rounds: int = 0  # each arm has been rewarded so often
    waiting: int = 0  # arms not rewarded in the round at hand
    counts: dict[int, int] = field(default_factory=dict)
    totals: dict[int, float] = field(default_factory=dict)
    halves: "tuple[_Bin, _Bin] | None" = None

    def __post_init__(self) -> None:
        self.waiting = len(self.arms)
        self.counts = dict.fromkeys(self.arms, 0)
        self.totals = dict.fromkeys(self.arms, 0.0)


class AdaptiveElimination:
    """Adaptively binned successive elimination (Perchet and Rigollet, 2013).

    A bin plays its arms in turn and drops those that are clearly worse; once the noise blurs less
    than the width of the bin does, two halves go on with the arms that are left.
    """

    def __init__(self, task: Task, settings: EliminationSettings) -> None:
        self._task = task
        self._settings = settings
        self._root = _Bin(width=1.0, middle=0.5, arms=list(range(task.arms)))

    def select(self, x: float) -> int:
        """The next arm in turn of the bin that holds the context."""
        leaf = self._leaf(x)
        leaf.turn = (leaf.turn + 1) % len(leaf.arms)
        return leaf.arms[leaf.turn]

    def reward(self, x: float, arm: int, reward: float) -> None:
        """Counts it, if the arm is still in play; a full round is followed by a judgement."""
        leaf = self._leaf(x)
        if arm not in leaf.counts:
            return
        leaf.counts[arm] += 1
        leaf.totals[arm] += reward
        if leaf.counts[arm] == leaf.rounds + 1:
            leaf.waiting -= 1
            if leaf.waiting == 0:
                self._judge(leaf)

    def _leaf(self, x: float) -> _Bin:
        node = self._root
        while node.halves is not None:
            node = node.halves[x >= node.middle]
        return node

    def _judge(self, leaf: _Bin) -> None:
        leaf.rounds += 1
        share = max(1.0, math.log(self._task.horizon * leaf.width / leaf.rounds))
        blur = self._settings.confidence * self._task.noise * math.sqrt(2 * share / leaf.rounds)
        bias = self._settings.bias * self._task.lipschitz * leaf.width
        means = {arm: leaf.totals[arm] / leaf.counts[arm] for arm in leaf.arms}
        least = max(means.values()) - max(blur, bias)
        leaf.arms = [arm for arm in leaf.arms if means[arm] >= least]
        leaf.turn = 0
        if blur <= bias and len(leaf.arms) > 1:
            self._halve(leaf)
            return
        leaf.counts = {arm: leaf.counts[arm] for arm in leaf.arms}
        leaf.waiting = sum(count <= leaf.rounds for count in leaf.counts.values())
        if len(leaf.arms) == 1:
            leaf.counts = {}

    def _halve(self, leaf: _Bin) -> None:
        width = leaf.width / 2
        leaf.halves = (
            _Bin(width=width, middle=leaf.middle - width / 2, arms=list(leaf.arms)),
            _Bin(width=width, middle=leaf.middle + width / 2, arms=list(leaf.arms)),
        )
