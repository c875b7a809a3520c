"""The `adaptive` preset, whole, sequential and in memory.

An arm that was tried has a *curve*: balls [interval] × {arm} that cover [0, 1] from left to right,
narrow where the arm was played and wide elsewhere. All rewards of the arm speak for all its balls,
each the less the further away it was earned: a posterior under a random walk along the context.
Arms not yet tried share the root ball, the only one that is ever flagged.

The engine on Redis computes the same numbers in the same order; the tests hold it to this file.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise

from service.algorithm.config import AdaptiveConfig
from service.algorithm.intervals import Interval

# The variance that a curve gathers along the whole of [0, 1], in units of L².
ROUGHNESS = 0.15
# What is known of a curve before its first reward; rewards are scaled to [0, 1].
PRIOR_MEAN = 0.5
PRIOR_VARIANCE = 0.25
# The balls of a curve: this bounds the memory of an arm and the work of a reward.
MOST_BALLS = 64
# Balls may be as deep as this at first, and one level deeper each time the arm's rewards double.
FIRST_DEPTH = 6
# An arm not yet tried is taken when what it may bring is worth so much of what it costs.
OPTIMISM = 3.0
LEAST_COST = 0.05
# Without a horizon there are always so many times as many trials to come as there were, counted
# in powers of two.
FUTURE = 16
FIRST_FUTURE = 64
# The noise that is learned: where it starts, how much evidence a new value takes, and when half of
# the evidence is dropped. A squared residual counts up to so many times what was expected.
FIRST_VARIANCE = 0.001
LEAST_VARIANCE = 1e-12
EVIDENCE = 4.0
MOST_EVIDENCE = 64.0
SURPRISE = 25.0
# Rewards may never come: plays in flight count by the share that was answered so far, of all plays
# and this many that are taken to have been.
TRUSTED = 1000
# Values that move all bounds move in steps of at least this factor, and after a step each reward
# brings so many arms up to date.
STEP = math.sqrt(2)
RESCORED = 2
# A bound that would move by less than this stays where it is.
MOVED = 1e-4


@dataclass(slots=True, eq=False)
class Ball:
    """A context interval and one arm. Counts and sums are kept for each half of the interval."""

    id: int
    interval: Interval
    arm: int
    counts: list[float] = field(default_factory=lambda: [0.0, 0.0])
    totals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    flying: list[float] = field(default_factory=lambda: [0.0, 0.0])
    mean: float = PRIOR_MEAN
    variance: float = PRIOR_VARIANCE
    ucb: float = math.inf
    width: float = field(init=False)
    centre: float = field(init=False)
    known_mean: float | None = None  # at the ball's last reward

    def __post_init__(self) -> None:
        self.width = self.interval.width
        self.centre = self.interval.start + self.width / 2


@dataclass(slots=True, eq=False)
class Curve:
    """What is known of an arm: its balls from left to right, at the step they were scored."""

    balls: list[Ball]
    rewards: int = 0
    step: int = 0

    def at(self, x: float) -> int:
        """The place of the ball that holds `x`."""
        low, high = 0, len(self.balls) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.balls[middle].interval.start <= x:
                low = middle
            else:
                high = middle - 1
        return low

    def land(self, x: float) -> None:
        """A play is no longer in flight: at `x`, or as near as splits have spread it."""
        place, left = self.at(x), 1.0
        for distance in range(len(self.balls)):
            for near in dict.fromkeys((place - distance, place + distance)):
                if left > 0 and 0 <= near < len(self.balls):
                    flying = self.balls[near].flying
                    for half in (0, 1):
                        landed = min(flying[half], left)
                        flying[half] -= landed
                        left -= landed
            if left == 0:
                return


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
    """The algorithm. `select` a context's arm, then `reward` the decision, now or later."""

    def __init__(self, config: AdaptiveConfig) -> None:
        self.config = config
        self.curves: list[Curve] = []  # of the arms tried, which are the first of the catalogue
        self.depth = 0
        self.next_ball = 1
        self.variance = FIRST_VARIANCE if config.noise is None else config.noise**2
        self.future = float(config.horizon or FUTURE * FIRST_FUTURE)
        self.step = 0
        self._selects = self._rewards = 0
        self._reward_total = 0.0
        self._first_rewards, self._arms_rewarded = 0.0, 0
        self._evidence = self._squares = 0.0
        self._cursor = 0
        self._ranked: dict[Interval, dict[int, Ball]] = {}
        self._leaders: dict[Interval, Ball] = {}

    @property
    def size(self) -> int:
        """The number of balls in the partition."""
        fresh = len(self.curves) < self.config.arms
        return sum(len(curve.balls) for curve in self.curves) + fresh

    @property
    def splits(self) -> int:
        """How many balls have been split."""
        return (self.next_ball - 1 - len(self.curves)) // 2

    def select(self, x: float) -> AdaptiveDecision:
        """The ball with the largest UCB at `x`, or the next arm not yet tried."""
        self._selects += 1
        best = self._best_at(x)
        if best is None or self._take_new_arm(best):
            return self._try_new_arm(x)
        # The UCB is that of the ball's centre; away from it a mean may be higher.
        at_most = best.ucb + self.config.lipschitz * best.width / 2
        decision = AdaptiveDecision(best, best.arm, x, "active", at_most)
        self._let_fly(best, x)
        return decision

    def reward(self, decision: AdaptiveDecision, reward: float) -> None:
        """Credited to the ball that holds the decision's context now."""
        x, curve = decision.x, self.curves[decision.arm]
        curve.land(x)
        ball = curve.balls[curve.at(x)]
        self._rewards += 1
        self._reward_total += reward
        curve.rewards += 1
        if curve.rewards == 1:
            self._first_rewards += reward
            self._arms_rewarded += 1
        elif self.config.noise is None:
            self._learn_noise(ball, reward, weight=1 / (curve.rewards - 1))
        self._look_ahead()
        self._refine(curve, x)
        ball = curve.balls[curve.at(x)]
        half = ball.interval.half_of(x)
        ball.counts[half] += 1.0
        ball.totals[half] += reward
        self._score(curve)
        ball.known_mean = ball.mean
        self._score_some_stale_curves()

    def best_mean(self, x: float) -> float:
        """The best mean of a ball at `x`, each as of its last reward; NaN when none has one."""
        balls = (curve.balls[curve.at(x)] for curve in self.curves)
        means = [ball.known_mean for ball in balls if ball.known_mean is not None]
        return max(means, default=math.nan)

    # -- the choice

    def _best_at(self, x: float) -> Ball | None:
        leaders = (
            self._leader(Interval.holding(x, depth=depth)) for depth in range(self.depth + 1)
        )
        return min((ball for ball in leaders if ball is not None), key=_rank, default=None)

    def _leader(self, interval: Interval) -> Ball | None:
        leader = self._leaders.get(interval)
        if leader is None and (ranked := self._ranked.get(interval)):
            leader = self._leaders[interval] = min(ranked.values(), key=_rank)
        return leader

    def _take_new_arm(self, best: Ball) -> bool:
        """Whether the next arm may bring more than a look at it costs.

        Of so many arms and one more, each is as likely the best one; it may be better by all that
        is left up to 1, where that is, for the trials to come.
        """
        tried = len(self.curves)
        if tried == self.config.arms:
            return False
        # Rewards of more than 1 on average: the range was told wrongly, and there is no top.
        beyond = self._reward_total > self._rewards
        gap = 1.0 if beyond else max(1.0 - best.ucb, 0.0)
        reach = min(gap / self.config.lipschitz, 1.0)
        gain = OPTIMISM * 0.5 * gap * self.future * reach / (tried + 1)
        typical = PRIOR_MEAN
        if self._arms_rewarded:
            typical = self._first_rewards / self._arms_rewarded
        return gain > max(best.ucb - typical, LEAST_COST)

    def _try_new_arm(self, x: float) -> AdaptiveDecision:
        arm = len(self.curves)
        ball = self._new_ball(Interval(0, 0), arm)
        ball.ucb = 1.0
        self.curves.append(Curve([ball], step=self.step))
        self._let_fly(ball, x)
        return AdaptiveDecision(Root(), arm, x, "flagged", 1.0)

    def _let_fly(self, ball: Ball, x: float) -> None:
        """A play in flight makes its ball less uncertain, though no better or worse."""
        ball.flying[ball.interval.half_of(x)] += 1.0
        ball.ucb = min(ball.ucb, self._ucb(ball))
        self._leaders.pop(ball.interval, None)

    # -- the bounds

    def _noise(self, width: float) -> float:
        """The variance of a reward around the mean of a ball of this width."""
        lipschitz = self.config.lipschitz
        return self.variance + lipschitz * lipschitz * width * width / 12

    def _ucb(self, ball: Ball) -> float:
        """The mean and a bonus that knows how much of the future a better arm would serve."""
        noise = self._noise(ball.width)
        answered = (self._rewards + TRUSTED) / (self._selects + TRUSTED)
        flying = answered * (ball.flying[0] + ball.flying[1])
        variance = ball.variance / (1 + flying * ball.variance / noise)
        reach = min(math.sqrt(variance) / self.config.lipschitz, 1.0)
        share = variance / noise * self.future * reach / self.config.arms
        bonus = math.sqrt(2 * variance * math.log(1 + share))
        return ball.mean + self.config.confidence_coefficient * bonus

    def _score(self, curve: Curve) -> None:
        """Means, variances and bounds of all balls of a curve, from all its rewards."""
        self._estimate(curve.balls)
        for ball, ucb in zip(curve.balls, self._bounds(curve.balls), strict=True):
            if abs(ucb - ball.ucb) > MOVED:
                ball.ucb = ucb
                self._leaders.pop(ball.interval, None)
        curve.step = self.step

    def _estimate(self, balls: list[Ball]) -> None:
        """The posterior: what each ball knows itself, and what comes from its left and right."""
        roughness = ROUGHNESS * self.config.lipschitz * self.config.lipschitz
        known = []  # of each ball: its own weight and pull, those from its left, the gap there
        weight = pull = last = own_weight = own_pull = 0.0
        for ball in balls:
            gap = roughness * (ball.centre - last)
            last = ball.centre
            weight, pull = weight + own_weight, pull + own_pull
            fade = 1 / (1 + gap * weight)
            weight, pull = weight * fade, pull * fade
            width, noise = ball.width, self._noise(ball.width)
            own_weight = (ball.counts[0] + ball.counts[1]) / noise + width / PRIOR_VARIANCE
            own_pull = (ball.totals[0] + ball.totals[1]) / noise
            own_pull += PRIOR_MEAN * width / PRIOR_VARIANCE
            known.append((own_weight, own_pull, weight, pull, gap))
        weight = pull = 0.0
        for ball, (own_weight, own_pull, left_weight, left_pull, gap) in zip(
            reversed(balls), reversed(known), strict=True
        ):
            weight, pull = weight + own_weight, pull + own_pull
            all_weight = weight + left_weight
            ball.mean = (pull + left_pull) / all_weight
            ball.variance = 1 / all_weight
            fade = 1 / (1 + gap * weight)
            weight, pull = weight * fade, pull * fade

    def _bounds(self, balls: list[Ball]) -> list[float]:
        """The UCBs, none above what the slope L allows from any other ball of the curve."""
        lipschitz = self.config.lipschitz
        ucbs = [self._ucb(ball) for ball in balls]
        limits = ucbs.copy()
        slopes = [lipschitz * (b.centre - a.centre) for a, b in pairwise(balls)]
        for place, slope in enumerate(slopes, 1):
            limits[place] = min(limits[place], limits[place - 1] + slope)
        for place in range(len(balls) - 2, -1, -1):
            limits[place] = min(limits[place], limits[place + 1] + slopes[place])
        return [
            min(ucb, limit + lipschitz * ball.width / 2)
            for ball, ucb, limit in zip(balls, ucbs, limits, strict=True)
        ]

    # -- the partition

    def _refine(self, curve: Curve, x: float) -> None:
        """Splits at `x` until the ball is as narrow as its rewards can tell, and then around it."""
        lipschitz = self.config.lipschitz
        deepest = min(FIRST_DEPTH + curve.rewards.bit_length() - 1, self.config.max_depth)
        place, balls_before = curve.at(x), len(curve.balls)
        while len(curve.balls) < MOST_BALLS:
            ball = curve.balls[place]
            count = ball.counts[0] + ball.counts[1] + 1
            if ball.interval.depth >= deepest:
                break
            if count * lipschitz * lipschitz * ball.width * ball.width <= self.variance:
                break
            self._split(curve, place)
            place += ball.interval.half_of(x)
        if len(curve.balls) > balls_before:
            self._balance(curve)

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
        """Each half becomes a ball; what it has counted is spread evenly over its own halves."""
        parent = curve.balls[place]
        children = []
        for half, interval in enumerate(parent.interval.halves):
            child = self._new_ball(interval, parent.arm)
            child.counts = [parent.counts[half] / 2] * 2
            child.totals = [parent.totals[half] / 2] * 2
            child.flying = [parent.flying[half] / 2] * 2
            children.append(child)
        curve.balls[place : place + 1] = children
        del self._ranked[parent.interval][parent.arm]
        self._leaders.pop(parent.interval, None)

    def _new_ball(self, interval: Interval, arm: int) -> Ball:
        ball = Ball(self.next_ball, interval, arm)
        self.next_ball += 1
        self.depth = max(self.depth, interval.depth)
        self._ranked.setdefault(interval, {})[arm] = ball
        self._leaders.pop(interval, None)
        return ball

    # -- what moves all bounds

    def _learn_noise(self, ball: Ball, reward: float, *, weight: float) -> None:
        """From what a reward differs from the mean; the arms count alike, however often played."""
        noise = self._noise(ball.width)
        residual = reward - ball.mean
        expected = noise + ball.variance
        square = min(residual * residual, SURPRISE * expected)
        share = noise / expected
        own = (share * share * square + ball.variance * share) * self.variance / noise
        self._evidence += weight
        self._squares += weight * own
        variance = max(self._squares / self._evidence, LEAST_VARIANCE)
        moved = max(variance / self.variance, self.variance / variance)
        if self._evidence >= EVIDENCE and moved > STEP:
            self.variance = variance
            self._evidence = self._squares = 0.0
            self._begin_step()
        elif self._evidence >= MOST_EVIDENCE:
            self._evidence, self._squares = self._evidence / 2, self._squares / 2

    def _look_ahead(self) -> None:
        """Without a horizon, the future grows with the past."""
        if self.config.horizon is None and self._rewards * FUTURE >= self.future:
            self.future *= 2
            self._begin_step()

    def _begin_step(self) -> None:
        self.step += 1
        self._cursor = 0

    def _score_some_stale_curves(self) -> None:
        for _ in range(RESCORED):
            if self._cursor < len(self.curves):
                curve = self.curves[self._cursor]
                self._cursor += 1
                if curve.rewards and curve.step < self.step:
                    self._score(curve)


def _rank(ball: Ball) -> tuple[float, int]:
    return -ball.ucb, ball.arm
