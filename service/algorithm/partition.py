"""The balls of all curves under the preset `adaptive`: made, halved, merged, kept in balance.

In balance as long as a curve has fewer balls than it may have: at the cap those that want to be
narrower are halved, whatever lies beside them.

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
# Two halves become one ball again, for another to be halved, if its rewards tell so many times as
# much: else contexts that crowd in one place and move later would leave a curve coarse there.
GIVEN_BACK = 4.0
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

        A curve that has all its balls makes room first, if it can: it is asked when the rewards of
        the ball have doubled. Returns the ball that holds `x` then.
        """
        deepest = min(FIRST_DEPTH + curve.rewards.bit_length() - 1, self._model.config.max_depth)
        balls_before, has_merged = len(curve.balls), False
        while True:
            ball = curve.balls[place]
            rewards = ball.counts[0] + ball.counts[1]
            told = self._model.told(rewards + 1, ball.width)
            if ball.interval.depth >= deepest or told <= self._model.variance:
                break
            if len(curve.balls) == MOST_BALLS:
                if not (has_merged or _doubles(rewards)) or not self._merge(curve, place, told):
                    break
                has_merged = True
                place = curve.at(x)
            self._split(curve, place)
            place += ball.interval.half_of(x)
        if len(curve.balls) > balls_before:
            self._balance(curve)
            place = curve.at(x)
        return curve.balls[place]

    def _merge(self, curve: Curve, place: int, told: float) -> bool:
        """Makes one ball of the two halves whose rewards would tell the least of it.

        If those of the ball at `place` tell so many times as much; and not where neighbours would
        then differ by more than one level. Whether there is room now.
        """
        least, found = math.inf, None
        for left in range(len(curve.balls) - 1):
            if place not in (left, left + 1) and _are_halves(curve, left):
                halves = curve.balls[left : left + 2]
                count = _sum(halves[0].counts) + _sum(halves[1].counts)
                of_both = self._model.told(count, 2 * halves[0].width)
                if of_both < least:
                    least, found = of_both, left
        if found is None or least * GIVEN_BACK >= told:
            return False
        one, other = curve.balls[found : found + 2]
        merged = self.new_ball(one.interval.parent, one.arm)
        merged.counts = [_sum(one.counts), _sum(other.counts)]
        merged.totals = [_sum(one.totals), _sum(other.totals)]
        merged.flying = [_sum(one.flying), _sum(other.flying)]
        merged.mean = (one.mean + other.mean) / 2
        merged.variance = (one.variance + other.variance) / 2
        merged.ucb = max(one.ucb, other.ucb)
        curve.balls[found : found + 2] = [merged]
        self.standing.leave(one)
        self.standing.leave(other)
        return True

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


def _sum(by_half: list[float]) -> float:
    return by_half[0] + by_half[1]


def _doubles(rewards: float) -> bool:
    """Whether one more makes them more than the next power of two, or as many."""
    return math.frexp(rewards + 1)[1] > math.frexp(rewards)[1]


def _are_halves(curve: Curve, left: int) -> bool:
    """Whether a ball and the next are halves of one that would be in balance."""
    interval = curve.balls[left].interval
    around = [ball.interval.depth for ball in curve.balls[max(left - 1, 0) : left + 3]]
    is_half = interval.index % 2 == 0 and curve.balls[left + 1].interval.depth == interval.depth
    return is_half and max(around) == interval.depth
