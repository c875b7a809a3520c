"""The peer that is told the metric: what knowing how arms relate is worth."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtest.baselines.peer import IndexTable, Task


@dataclass(frozen=True, kw_only=True)
class ZoomingSettings:
    """The weight of a ball's size in its index, and that of the noise."""

    size: float
    confidence: float


@dataclass(eq=False)
class _Ball:
    """A dyadic part of the contexts times arms that lie near each other."""

    depth: int
    index: int  # of its part of the contexts
    low: float  # where its part of the metric begins; both parts are equally wide
    arms: NDArray[np.intp]
    cap: float  # what the ball that it came from was worth at the most
    n: int = 0
    total: float = 0.0
    turn: int = 0
    children: tuple[dict[int, "_Ball"], dict[int, "_Ball"]] | None = None  # by half, then arm


class ContextualZooming(IndexTable):
    """Contextual zooming (Slivkins, 2014) over dyadic balls, with the arms' true places.

    A ball's index is its mean, its size and its confidence, and never more than that of the ball
    that it came from. Once the confidence is within the size, smaller balls take its place.
    """

    DEPTH = 11

    def __init__(self, task: Task, settings: ZoomingSettings) -> None:
        super().__init__(cells=2**self.DEPTH, arms=task.arms, start=math.inf)
        assert task.places is not None, "contextual zooming must be told the places of the arms"
        # Arms that are apart each have their place to themselves: no half of it is empty of them.
        self._places = np.zeros(task.arms) if task.apart else task.places
        self._size = settings.size * task.lipschitz
        self._blur = settings.confidence * task.noise * math.sqrt(2 * task.log_horizon)
        kinds = np.unique(task.places) if task.apart else [None]
        self._root_of: dict[int, _Ball] = {}
        for kind in kinds:
            arms = np.flatnonzero(task.places == kind) if task.apart else np.arange(task.arms)
            root = _Ball(depth=0, index=0, low=0.0, arms=arms, cap=math.inf)
            self._root_of |= dict.fromkeys(arms.tolist(), root)

    def select(self, x: float) -> int:
        """An arm of the ball with the largest index, its arms in turn."""
        ball = self._holding(x, super().select(x))
        ball.turn = (ball.turn + 1) % len(ball.arms)
        return int(ball.arms[ball.turn])

    def reward(self, x: float, arm: int, reward: float) -> None:
        """Counts for the ball that holds it now."""
        ball = self._holding(x, arm)
        ball.n += 1
        ball.total += reward
        confidence, size = self._blur / math.sqrt(ball.n), self._size * 2.0**-ball.depth
        index = min(ball.cap, ball.total / ball.n + size + confidence)
        wide = self.cells >> ball.depth
        self.index[ball.index * wide : (ball.index + 1) * wide, ball.arms] = index
        if confidence <= size and ball.depth < self.DEPTH:
            self._split(ball, cap=index)

    def _holding(self, x: float, arm: int) -> _Ball:
        ball, cell = self._root_of[arm], self.cell(x)
        while ball.children is not None:
            ball = ball.children[cell >> (self.DEPTH - ball.depth - 1) & 1][arm]
        return ball

    def _split(self, ball: _Ball, *, cap: float) -> None:
        depth = ball.depth + 1
        middle = ball.low + 2.0**-depth
        upper = self._places[ball.arms] >= middle
        parts = [(ball.low, ball.arms[~upper]), (middle, ball.arms[upper])]
        halves: tuple[dict[int, _Ball], dict[int, _Ball]] = ({}, {})
        for half, children in enumerate(halves):
            for low, arms in parts:
                child = _Ball(depth, 2 * ball.index + half, low, arms, cap)
                children.update(dict.fromkeys(arms.tolist(), child))
        ball.children = halves
