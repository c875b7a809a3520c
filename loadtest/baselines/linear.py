"""MABWiser's linear Thompson sampling, on features of the context made by hand."""

from dataclasses import dataclass

import numpy as np

from loadtest.baselines.peer import Floats, Task


@dataclass(frozen=True, kw_only=True)
class LinearSettings:
    """MABWiser's α, the weight of exploration, its ridge, and the number of hinges."""

    alpha: float
    ridge: float
    hinges: int


class LinearThompson:
    """LinTS of MABWiser; an arm's curve is a line with hinges at even places.

    The library takes milliseconds for a call, however many contexts the call is about. So it is
    asked for the arms of many even contexts at once, and asked anew each time that its rewards have
    grown by a thirty-second: at first after each reward, and some hundred times in all.
    """

    CELLS = 256
    REFIT_SHARE = 1 / 32

    def __init__(self, task: Task, settings: LinearSettings) -> None:
        from mabwiser.mab import MAB, LearningPolicy  # noqa: PLC0415 - a development dependency

        self._hinges = np.arange(settings.hinges) / settings.hinges
        self._grid = self._features((np.arange(self.CELLS) + 0.5) / self.CELLS)
        policy = LearningPolicy.LinTS(alpha=settings.alpha, l2_lambda=settings.ridge)
        self._bandit = MAB(list(range(task.arms)), policy, seed=task.seed)
        self._seen = 0
        self._new: list[tuple[int, float, float]] = []
        self._arms = task.rng().integers(task.arms, size=self.CELLS).tolist()

    def select(self, x: float) -> int:
        """The arm that the library drew for the nearest of the even contexts."""
        return int(self._arms[min(int(x * self.CELLS), self.CELLS - 1)])

    def reward(self, x: float, arm: int, reward: float) -> None:
        """Kept until enough are together for the library."""
        # An arm never tried counts as 0 there: less 1, it counts as good as the best can be.
        self._new.append((arm, reward - 1.0, x))
        if len(self._new) > self.REFIT_SHARE * self._seen:
            self._refit()

    def _refit(self) -> None:
        arms, rewards, contexts = zip(*self._new, strict=True)
        learn = self._bandit.partial_fit if self._seen else self._bandit.fit
        learn(list(arms), list(rewards), self._features(np.array(contexts)))
        self._arms = self._bandit.predict(self._grid)
        self._seen += len(self._new)
        self._new.clear()

    def _features(self, x: Floats) -> Floats:
        """1, and how far the context is beyond each hinge, the first of which is at 0."""
        beyond = np.maximum(0.0, x[:, np.newaxis] - self._hinges)
        return np.hstack([np.ones((len(x), 1)), beyond])
