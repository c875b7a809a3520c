"""Where the balls of the preset `adaptive` stand among those of other arms in their intervals."""

from collections.abc import Iterable

from service.algorithm.curve import Ball
from service.algorithm.intervals import Interval


def best(balls: Iterable[Ball]) -> Ball | None:
    """The ball with the largest UCB; of several, that of the first arm."""
    return min(balls, key=lambda ball: (-ball.ucb, ball.arm), default=None)


class Standing:
    """The balls that are up for choice, by interval, and the best of each as far as it is known."""

    def __init__(self) -> None:
        self._ranked: dict[Interval, dict[int, Ball]] = {}
        self._leaders: dict[Interval, Ball] = {}

    def rank(self, ball: Ball) -> None:
        """The ball is up for choice."""
        self._ranked.setdefault(ball.interval, {})[ball.arm] = ball
        self.moved(ball)

    def leave(self, ball: Ball) -> None:
        """The ball is no longer up for choice, if it was."""
        self._ranked.get(ball.interval, {}).pop(ball.arm, None)
        self.moved(ball)

    def moved(self, ball: Ball) -> None:
        """The ball has another bound."""
        self._leaders.pop(ball.interval, None)

    def best_at(self, x: float, *, deepest: int) -> Ball | None:
        """The best ball that holds `x`."""
        intervals = (Interval.holding(x, depth=depth) for depth in range(deepest + 1))
        leaders = (self._leader(interval) for interval in intervals)
        return best(ball for ball in leaders if ball is not None)

    def _leader(self, interval: Interval) -> Ball | None:
        leader = self._leaders.get(interval)
        if leader is None and (leader := best(self._ranked.get(interval, {}).values())):
            self._leaders[interval] = leader
        return leader
