"""The curve of an arm under the preset `adaptive`: its balls, and what its rewards tell of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from service.algorithm.intervals import Interval

# What is known of a mean before any reward: no more than that it lies between 0 and 1.
PRIOR_MEAN = 0.5
PRIOR_VARIANCE = 1 / 12
# How steep a curve may be, in units of L (a standard deviation), and over which length it stays so.
# It is the bends that matter, since an arm is often best at one: so the slope may change by 2L
# within a fifteenth of the range. Where L is more than 1, curves are as much narrower as steeper.
STEEPNESS = 3.0
PERSISTENCE = 0.3
# What a curve has bent counts up to this many times what is expected.
LARGE_BENDS = 4.0
# Of a smaller variance nothing is left but rounding.
LEAST_VARIANCE = 1e-15


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
    ucb: float = 1.0
    width: float = field(init=False)
    centre: float = field(init=False)
    known_mean: float | None = None  # at its first reward, or one when its curve was scored

    def __post_init__(self) -> None:
        self.width = self.interval.width
        self.centre = self.interval.start + self.width / 2

    def earn(self, x: float, reward: float) -> None:
        """One more reward, at a context in the interval."""
        half = self.interval.half_of(x)
        self.counts[half] += 1.0
        self.totals[half] += reward


@dataclass(frozen=True, slots=True)
class Bends:
    """How much a curve bends: by its rewards, and as would be expected of what they can tell.

    Both in units of the variance that its bends are taken to have. The first is the second, on
    average, where they are as large as they are taken to be.
    """

    square: float = 0.0
    known: float = 0.0


NO_BENDS = Bends()


@dataclass(slots=True, eq=False)
class Curve:
    """What is known of an arm: its balls from left to right, at the step they were scored."""

    balls: list[Ball]
    rewards: int = 0
    step: int = 0
    # Of the rewards since then: how much surer they can make it, and how far they can move it.
    news: float = 0.0
    drift: float = 0.0
    bends: Bends = NO_BENDS

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

    def land(self, place: int) -> None:
        """A play is no longer in flight: in this ball, or as near as splits have spread it."""
        left = 1.0
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


def estimate(
    balls: list[Ball],
    *,
    noise: Callable[[Ball], float],
    lipschitz: float,
    slopes: float,
    scale: float,
) -> Bends:
    """Mean and variance of each ball, given the rewards of all, and how much the curve bends.

    A curve is taken to be a mean with a slope that comes and goes (Ornstein and Uhlenbeck's
    process): a Kalman filter runs over the balls from left to right, and what they learn from
    those to their right comes back as Bryson and Frazier have it. `noise` tells the variance of a
    reward in a ball, `slopes` and `scale` how many times the usual variance a slope and a mean
    have beforehand.
    """
    prior = PRIOR_VARIANCE * scale
    steep = STEEPNESS * STEEPNESS * slopes
    persistence = PERSISTENCE / max(lipschitz, 1.0)
    # Of mean and slope: what is expected, their variances, and their covariance.
    mean, slope = PRIOR_MEAN, 0.0
    variance, shared, slope_variance = scale, 0.0, steep
    seen = []
    last = balls[0].centre
    for ball in balls:
        gap = ball.centre - last
        last = ball.centre
        keep = math.exp(-gap / persistence)
        reach = persistence * (1 - keep)
        # What mean and slope change by on the way from the last ball: variances, and covariance.
        drift = steep * persistence * (2 * gap - reach * (3 - keep))
        both = steep * reach * (1 - keep)
        bend = steep * (1 - keep * keep)
        mean, slope = mean + reach * slope, keep * slope
        variance += reach * (2 * shared + reach * slope_variance) + drift
        shared = keep * (shared + reach * slope_variance) + both
        slope_variance = keep * keep * slope_variance + bend

        width, blur = ball.width, noise(ball)
        weight = (ball.counts[0] + ball.counts[1]) / blur + width / prior
        pull = (ball.totals[0] + ball.totals[1]) / blur + PRIOR_MEAN * width / prior
        left = 1 / (1 + variance * weight)
        gain, push = weight * left, (pull - weight * mean) * left
        seen.append((mean, variance, shared, left, gain, push, reach, keep, drift, both, bend))
        mean, slope = mean + variance * push, slope + shared * push
        slope_variance -= shared * shared * gain
        variance, shared = variance * left, shared * left

    # What the balls from here to the right end say of mean and slope, and how surely.
    news, slope_news = 0.0, 0.0
    sure, sure_shared, sure_slope = 0.0, 0.0, 0.0
    square, known = 0.0, 0.0
    for ball, before in zip(reversed(balls), reversed(seen), strict=True):
        mean, variance, shared, left, gain, push, reach, keep, drift, both, bend = before
        lean = shared * gain
        news = left * news - lean * slope_news + push
        sure = left * left * sure - lean * (2 * left * sure_shared - lean * sure_slope) + gain
        sure_shared = left * sure_shared - lean * sure_slope
        ball.mean = mean + variance * news + shared * slope_news
        told = variance * (variance * sure + 2 * shared * sure_shared)
        told += shared * shared * sure_slope
        ball.variance = max(variance - told, LEAST_VARIANCE)
        square += news * (drift * news + 2 * both * slope_news) + bend * slope_news * slope_news
        known += drift * sure + 2 * both * sure_shared + bend * sure_slope
        slope_news = reach * news + keep * slope_news
        sure_slope = reach * (reach * sure + 2 * keep * sure_shared) + keep * keep * sure_slope
        sure_shared = reach * sure + keep * sure_shared
    # The slope that it begins with counts, too.
    square += steep * slope_news * slope_news
    known += steep * sure_slope
    return Bends(min(square, LARGE_BENDS * known), known)
