"""The balls of all curves under the preset `adaptive`: made, halved, and kept in balance.

What a ball is worth is no concern of this file; where the best of them stand, `standing.py` keeps.
"""

import math

from service.algorithm.catalogue import Catalogue
from service.algorithm.curve import Ball, Curve
from service.algorithm.intervals import Interval
from service.algorithm.model import Model
from service.algorithm.standing import Standing

# The balls of a curve: this bounds the memory of an arm and the work of a reward.
MOST_BALLS = 64
# Balls may be as deep as this at first, and one level deeper each time the arm's rewards double.
FIRST_DEPTH = 6


class Partition:
    """Of [0, 1] × arms, as fine as rewards let it be; balls get increasing ids."""

    def __init__(self, catalogue: Catalogue, model: Model) -> None:
        self.standing = Standing()
        self.depth = 0
        self.splits = 0
        self._next_ball = 1
        self._catalogue = catalogue
        self._model = model

    def best_at(self, x: float) -> Ball | None:
        """The best ball that holds `x`, of those up for choice."""
        return self.standing.best_at(x, deepest=self.depth)

    def new_ball(self, interval: Interval, arm: int) -> Ball:
        """With the next id; up for choice if its arm is."""
        ball = Ball(self._next_ball, interval, arm)
        self._next_ball += 1
        self.depth = max(self.depth, interval.depth)
        if self._catalogue.may_play(arm):
            self.standing.rank(ball)
        return ball

    def refine(self, curve: Curve, place: int, x: float) -> Ball:
        """Splits at `x` until the ball is narrow enough for its rewards, and then around it.

        By themselves, so many rewards can tell a rise whose square is the noise over their count.
        But where a ball has many, its neighbours have, and these speak for it too: it may be
        narrower, by the square root of the count. Returns the ball that holds `x` then.
        """
        deepest = min(FIRST_DEPTH + curve.rewards.bit_length() - 1, self._model.config.max_depth)
        balls_before = len(curve.balls)
        while len(curve.balls) < MOST_BALLS:
            ball = curve.balls[place]
            count = ball.counts[0] + ball.counts[1] + 1
            rise = self._model.lipschitz * ball.width
            told = count * math.sqrt(count) * rise * rise
            if ball.interval.depth >= deepest or told <= self._model.variance:
                break
            self._split(curve, place)
            place += ball.interval.half_of(x)
        if len(curve.balls) > balls_before:
            self._balance(curve)
            place = curve.at(x)
        return curve.balls[place]

    def _balance(self, curve: Curve) -> None:
        """Splits until neighbours differ by one level at the most.

        Next to a ball that is known well, a wide one would hide how fast the bounds rise.
        """
        place = 0
        while place < len(curve.balls) and len(curve.balls) < MOST_BALLS:
            depths = [ball.interval.depth for ball in curve.balls[max(place - 1, 0) : place + 2]]
            if curve.balls[place].interval.depth < max(depths) - 1:
                self._split(curve, place)
                place = max(place - 1, 0)
            else:
                place += 1

    def _split(self, curve: Curve, place: int) -> None:
        """Each half becomes a ball; what it has counted is spread evenly over its own halves.

        All else that is known of the ball, its bound included, is what is known of both.
        """
        parent = curve.balls[place]
        children = []
        for half, interval in enumerate(parent.interval.halves):
            child = self.new_ball(interval, parent.arm)
            child.counts = [parent.counts[half] / 2] * 2
            child.totals = [parent.totals[half] / 2] * 2
            child.flying = [parent.flying[half] / 2] * 2
            child.mean, child.variance, child.ucb = parent.mean, parent.variance, parent.ucb
            children.append(child)
        curve.balls[place : place + 1] = children
        self.splits += 1
        self.standing.leave(parent)
