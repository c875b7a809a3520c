"""The `adaptive` preset, sequential and in memory: what is played, and what a reward changes.

An arm that was tried has a *curve*: balls [interval] × {arm} that cover [0, 1] from left to right,
narrow where the arm was played and wide elsewhere. All rewards of the arm speak for all its balls,
each the less the further away it was earned.
Arms not yet tried share the root ball, the only one that is ever flagged. What rewards tell of a
curve is in `curve.py`, what they tell of all curves in `model.py`, how balls are halved and
merged in `partition.py`.

The engine on Redis computes the same numbers in the same order; the tests hold it to these files.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from service.algorithm.catalogue import Catalogue, NoArm
from service.algorithm.config import AdaptiveConfig
from service.algorithm.curve import Ball, Bends, Curve, estimate
from service.algorithm.intervals import Interval
from service.algorithm.model import CROWD, Model
from service.algorithm.partition import Partition
from service.algorithm.standing import best

# An arm not yet tried is taken when so many times what it may bring is more than what it costs to
# get to know it: what a look misses, once, and so often again where the noise is as large as what
# is looked for.
OPTIMISM = 8.0
LOOKS = 48.0
LEAST_MISSED = 0.05
# How a bonus grows with what is at stake: as this power of its logarithm, which is this at least.
# A look tells something of contexts as near as this, too (over L, if that is more than 1). Where
# there are more arms than a crowd, more of them are about as good as the best.
CAUTION = 0.35
LEAST_AT_STAKE = 0.3
NEARBY = 0.1
# Rewards may never come: plays in flight count by the share that was answered so far, of all plays
# and this many that are taken to have been.
TRUSTED = 1000
# After a step of the model each reward brings so many arms up to date.
RESCORED = 2
# A bound that would move by less than this, or by less than this share of its height over the mean,
# stays where it is.
MOVED = 1e-4
MOVED_SHARE = 0.1
# A curve is scored when its variance may have changed by this share, and a bound by this much. The
# flatter curves are, the further away a reward tells something, and the sooner that is enough.
NEWS = 0.4
DRIFT = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """The ball of the arms not yet tried."""

    id: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class AdaptiveDecision:
    """One trial: what was played, where, in which phase, and what it may be worth at the most."""

    ball: Ball | Root
    arm: int
    x: float
    phase: str
    ucb: float


class AdaptiveLearner:
    """The algorithm. `select` a context's arm, then `reward` the decision, now or later.

    Arms may be added, paused, resumed and retired on the way.
    """

    def __init__(self, config: AdaptiveConfig) -> None:
        self.config = config
        self.catalogue = Catalogue(config.arms)
        self.curves: dict[int, Curve] = {}  # of the arms tried
        self.untried = set(range(config.arms))  # and not paused
        self.model = Model(config)
        self._partition = Partition(self.catalogue, self.model)
        self._selects = 0

    @property
    def depth(self) -> int:
        """That of the deepest ball there ever was."""
        return self._partition.depth

    @property
    def splits(self) -> int:
        """How many balls were halved."""
        return self._partition.splits

    @property
    def size(self) -> int:
        """The number of balls in the partition."""
        has_root = len(self.curves) < self.catalogue.arms
        return sum(len(curve.balls) for curve in self.curves.values()) + has_root

    def select(self, x: float, eligible: Collection[int] | None = None) -> AdaptiveDecision:
        """The ball with the largest UCB at `x`, or the next arm not yet tried.

        Of all balls and arms, or of those of the eligible arms alone.
        """
        leader, untried = self._partition.best_at(x), self.untried
        if eligible is not None:
            leader, untried = self._best_of(eligible, x), untried.intersection(eligible)
        if leader is None and not untried:
            raise NoArm
        self._selects += 1
        if leader is None or (untried and self._take_new_arm(leader)):
            return self._try_new_arm(min(untried), x)
        # The UCB is that of the ball's centre (or, until it is scored, of the one it is a half of);
        # away from it a mean may be higher. Of an arm that was never tried nothing is ruled out.
        at_most = 1.0 if self.untried else leader.ucb + self.model.lipschitz * leader.width / 2
        decision = AdaptiveDecision(leader, leader.arm, x, "active", at_most)
        self._let_fly(leader, x)
        return decision

    def reward(self, decision: AdaptiveDecision, reward: float) -> None:
        """Credited to the ball that holds the decision's context now."""
        x, curve = decision.x, self.curves.get(decision.arm)
        if curve is None:  # the arm has been retired
            return
        place = curve.at(x)
        curve.land(place)
        curve.rewards += 1
        self.model.count(reward, is_first=curve.rewards == 1)
        if curve.rewards > 1 and self.config.noise is None:
            self.model.learn_noise(curve.balls[place], reward, weight=1 / (curve.rewards - 1))
        self.model.look_ahead()
        self._note(curve, place, reward)
        ball = self._partition.refine(curve, place, x)
        ball.earn(x, reward)
        is_due = self._is_due(curve)
        if is_due:
            self._score(curve)
            if self.config.lipschitz is None:
                self.model.learn_slope(curve.balls, ball)
        else:
            self._learn_here(ball, reward)
        if is_due or ball.known_mean is None:
            ball.known_mean = ball.mean
        self._score_some_stale_curves()

    def best_mean(self, x: float) -> float:
        """The best mean of a ball at `x`, each as it was last ranked; NaN when none has one."""
        balls = (curve.balls[curve.at(x)] for curve in self.curves.values())
        means = [ball.known_mean for ball in balls if ball.known_mean is not None]
        return max(means, default=math.nan)

    def abandon(self, decision: AdaptiveDecision) -> None:
        """The reward will never come: the play is no longer in flight."""
        curve = self.curves.get(decision.arm)
        if curve is not None:
            curve.land(curve.at(decision.x))
            self._score(curve)

    # -- the catalogue

    def add_arm(self) -> int:
        """The new arm, which enters as an active ball of its own."""
        arm = self.catalogue.add()
        self._new_curve(arm)
        return arm

    def pause(self, arm: int) -> None:
        """The arm is no longer played; what is known of it stays."""
        self.catalogue.paused.add(arm)
        self._leave(arm)

    def resume(self, arm: int) -> None:
        """The arm is played again."""
        self.catalogue.paused.discard(arm)
        if arm in self.curves:
            for ball in self.curves[arm].balls:
                self._partition.standing.rank(ball)
        else:
            self.untried.add(arm)

    def retire(self, arm: int) -> None:
        """The arm is gone for ever, with its balls, and what they have told of bends."""
        self.catalogue.retire(arm)
        self._leave(arm)
        if arm in self.curves:
            self.model.forget_bends(self.curves.pop(arm).bends)

    def _leave(self, arm: int) -> None:
        """Nothing of the arm is up for choice any more."""
        self.untried.discard(arm)
        if arm in self.curves:
            for ball in self.curves[arm].balls:
                self._partition.standing.leave(ball)

    # -- the choice

    def _best_of(self, eligible: Collection[int], x: float) -> Ball | None:
        curves = (
            self.curves[arm]
            for arm in eligible
            if arm in self.curves and self.catalogue.may_play(arm)
        )
        return best(curve.balls[curve.at(x)] for curve in curves)

    def _take_new_arm(self, best: Ball) -> bool:
        """Whether the next arm may bring more than it costs to get to know it.

        Of so many arms and one more, each is as likely the best one; it may be better by all that
        is left up to 1, where that is, for the trials to come. A look at it misses what an arm
        usually misses; the more noise there is beside that, or beside what it may be better by, the
        more looks it takes.
        """
        # Rewards of more than 1 on average: the range was told wrongly, and there is no top.
        model = self.model
        beyond = model.reward_total > model.rewards
        gap = 1.0 if beyond else max(1.0 - best.ucb, 0.0)
        reach = min(gap / model.lipschitz, 1.0)
        gain = OPTIMISM * gap * model.to_come * reach / (len(self.curves) + 1)
        missed = max(best.ucb - model.typical_first_reward, LEAST_MISSED)
        apart = max(missed, gap)
        looks = 1 + LOOKS * model.reward_variance(best) / (apart * apart)
        return gain > missed * looks

    def _try_new_arm(self, arm: int, x: float) -> AdaptiveDecision:
        self.untried.discard(arm)
        self._let_fly(self._new_curve(arm), x)
        return AdaptiveDecision(Root(), arm, x, "flagged", 1.0)

    def _new_curve(self, arm: int) -> Ball:
        ball = self._partition.new_ball(Interval(0, 0), arm)
        self.curves[arm] = Curve([ball], step=self.model.step)
        return ball

    def _let_fly(self, ball: Ball, x: float) -> None:
        """A play in flight makes its ball less uncertain, though no better or worse."""
        ball.flying[ball.interval.half_of(x)] += 1.0
        ucb = self._ucb(ball)
        if ucb < ball.ucb:
            self._move(ball, ucb)

    # -- the bounds

    def _note(self, curve: Curve, place: int, reward: float) -> None:
        """What a reward may do to the bounds of a curve: where much is known, next to nothing."""
        ball = curve.balls[place]
        noise = self.model.noise(ball)
        share = ball.variance / (ball.variance + noise)
        curve.news += ball.variance / noise
        curve.drift += share * (abs(reward - ball.mean) + math.sqrt(ball.variance))

    def _is_due(self, curve: Curve) -> bool:
        """Whether a curve is to be scored: after its first reward, and when there is news."""
        enough = NEWS * math.sqrt(min(self.model.slopes, 1.0))
        return curve.rewards == 1 or (curve.news >= enough and curve.drift > DRIFT)

    def _learn_here(self, ball: Ball, reward: float) -> None:
        """What a reward tells of its own ball; the others are told when the curve is scored.

        Until then its bound, which may be held down by theirs, rises by no more than what it would
        have by itself.
        """
        before = self._ucb(ball)
        share = ball.variance / (ball.variance + self.model.noise(ball))
        ball.mean += share * (reward - ball.mean)
        ball.variance *= 1 - share
        now = self._ucb(ball)
        self._move(ball, min(now, ball.ucb + max(now - before, 0.0)))

    def _ucb(self, ball: Ball) -> float:
        """The mean, and a bonus that knows how much is at stake."""
        noise = self.model.noise(ball)
        answered = (self.model.rewards + TRUSTED) / (self._selects + TRUSTED)
        flying = answered * (ball.flying[0] + ball.flying[1])
        variance = ball.variance / (1 + flying * ball.variance / noise)
        bonus = math.sqrt(2 * variance) * math.pow(self._at_stake(variance, noise), CAUTION)
        return ball.mean + self.config.confidence_coefficient * bonus

    def _at_stake(self, variance: float, noise: float) -> float:
        """The logarithm of what one more look tells, for the trials that a better arm would serve.

        Those are as many of all there may be as are within its reach, shared by all arms, and by
        the more that are about as good.
        """
        arms = self.catalogue.arms
        nearby = NEARBY / max(self.model.lipschitz, 1.0)
        reach = min(nearby + math.sqrt(variance) / self.model.lipschitz, 1.0)
        trials = self.model.horizon * reach / (arms * math.sqrt(arms / CROWD))
        return max(math.log(1 + variance / noise * trials), LEAST_AT_STAKE)

    def _move(self, ball: Ball, ucb: float) -> None:
        """Gives the ball a new bound, if that is far enough from the one it has."""
        if abs(ucb - ball.ucb) > max(MOVED, MOVED_SHARE * (ucb - ball.mean)):
            ball.ucb = ucb
            self._partition.standing.moved(ball)

    def _score(self, curve: Curve) -> None:
        """Means, variances and bounds of all balls of a curve, from all its rewards."""
        bends = self._estimate(curve.balls)
        for ball, ucb in zip(curve.balls, self._bounds(curve.balls), strict=True):
            self._move(ball, ucb)
        curve.step, curve.news, curve.drift = self.model.step, 0.0, 0.0
        self.model.learn_steepness(
            curve.bends,
            bends,
            curves=len(self.curves),
            arms=self.catalogue.arms,
            arms_ever=self.catalogue.size,
        )
        curve.bends = bends

    def _estimate(self, balls: list[Ball]) -> Bends:
        model = self.model
        return estimate(
            balls,
            noise=model.noise,
            lipschitz=model.lipschitz,
            slopes=model.slopes,
            scale=model.scale,
        )

    def _bounds(self, balls: list[Ball]) -> list[float]:
        """The UCBs, none above what the slope L allows from any other ball of the curve."""
        ucbs = [self._ucb(ball) for ball in balls]
        limits = ucbs.copy()
        slopes = [self.model.lipschitz * (b.centre - a.centre) for a, b in pairwise(balls)]
        for place, slope in enumerate(slopes, 1):
            limits[place] = min(limits[place], limits[place - 1] + slope)
        for place in range(len(balls) - 2, -1, -1):
            limits[place] = min(limits[place], limits[place + 1] + slopes[place])
        return [
            min(ucb, limit + self.model.lipschitz * ball.width / 2)
            for ball, ucb, limit in zip(balls, ucbs, limits, strict=True)
        ]

    def _score_some_stale_curves(self) -> None:
        for _ in range(RESCORED):
            if self.model.cursor < self.catalogue.size:
                curve = self.curves.get(self.model.cursor)
                self.model.cursor += 1
                if curve is not None and curve.rewards and curve.step < self.model.step:
                    self._score(curve)
