"""What every peer is: it selects an arm for a context and is told the reward, at once or later."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """What a peer is told: the same as ours, and a seed for its own chance."""

    arms: int
    horizon: int
    noise: float
    lipschitz: float
    seed: int
    # Where the arms lie in the true metric; only a peer that is told the metric looks at it.
    places: Floats | None = None
    # Arms at different places have nothing in common, however near they seem.
    apart: bool = False

    def rng(self) -> np.random.Generator:
        """The peer's own chance, another than that which the seed gives its environment."""
        return np.random.default_rng((self.seed, 1))

    @property
    def log_horizon(self) -> float:
        """ln T."""
        return float(np.log(self.horizon))


class Peer(Protocol):
    """A learner to compare with."""

    def select(self, x: float) -> int:
        """The arm to play."""

    def reward(self, x: float, arm: int, reward: float) -> None:
        """What playing the arm at the context brought."""


class IndexTable:
    """The index of each arm in each of some cells of [0, 1]; the largest in the cell is played.

    A reward changes the index of few arms, so a select is one look at one row.
    """

    def __init__(self, *, cells: int, arms: int, start: float) -> None:
        self.cells = cells
        self.index: Floats = np.full((cells, arms), start)

    def cell(self, x: float) -> int:
        """The cell that holds `x`."""
        return min(int(x * self.cells), self.cells - 1)

    def select(self, x: float) -> int:
        """The arm with the largest index; of equals the first."""
        return int(self.index[self.cell(x)].argmax())


class RandomArm:
    """Every arm is as likely as any other: what learning nothing costs."""

    def __init__(self, task: Task, settings: None) -> None:  # noqa: ARG002 - it has none
        self._arms = task.arms
        self._rng = task.rng()

    def select(self, x: float) -> int:  # noqa: ARG002 - chance does not look at the context
        """Any arm."""
        return int(self._rng.integers(self._arms))

    def reward(self, x: float, arm: int, reward: float) -> None:
        """Learns nothing."""
