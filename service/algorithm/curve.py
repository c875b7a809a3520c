"""The curve of an arm under the preset `adaptive`: its balls, and what its rewards tell of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from service.algorithm.intervals import Interval

# What is known of a mean before any reward: no more than that it lies between 0 and 1.
PRIOR_MEAN = 0.5
PRIOR_VARIANCE = 1 / 12
# How steep a curve may be, in units of L (a standard deviation), and over which length it stays so.
STEEPNESS = 2.0
PERSISTENCE = 0.03
# The square of a curve's slopes counts up to this many times what is expected.
LARGE_SLOPES = 4.0
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
    ucb: float = math.inf
    width: float = field(init=False)
    centre: float = field(init=False)
    known_mean: float | None = None  # at the ball's last reward

    def __post_init__(self) -> None:
        self.width = self.interval.width
        self.centre = self.interval.start + self.width / 2


@dataclass(frozen=True, slots=True)
class Slopes:
    """What is known of a curve's slopes: their square on average, and which share of it is known.

    The square is that of the slopes as they are expected, in units of the square of `STEEPNESS`·L.
    """

    square: float = 0.0
    known: float = 0.0


NO_SLOPES = Slopes()


@dataclass(slots=True, eq=False)
class Curve:
    """What is known of an arm: its balls from left to right, at the step they were scored."""

    balls: list[Ball]
    rewards: int = 0
    step: int = 0
    # Of the rewards since then: how much surer they can make it, and how far they can move it.
    news: float = 0.0
    drift: float = 0.0
    slopes: Slopes = NO_SLOPES

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
    steepness: float,
    scale: float,
) -> Slopes:
    """Mean and variance of each ball, given the rewards of all, and what they tell of the slopes.

    A curve is taken to be a mean with a slope that comes and goes (Ornstein and Uhlenbeck's
    process): a Kalman filter runs over the balls from left to right, and what they learn from
    those to their right comes back as Bryson and Frazier have it. `noise` tells the variance of a
    reward in a ball, `steepness` and `scale` how many times the usual variance a slope and a mean
    have beforehand.
    """
    prior = PRIOR_VARIANCE * scale
    steepest = STEEPNESS * lipschitz * STEEPNESS * lipschitz
    steep = steepest * steepness
    # Of mean and slope: what is expected, their variances, and their covariance.
    mean, slope = PRIOR_MEAN, 0.0
    variance, shared, slope_variance = scale, 0.0, steep
    seen = []
    last = balls[0].centre
    for ball in balls:
        gap = ball.centre - last
        last = ball.centre
        keep = math.exp(-gap / PERSISTENCE)
        reach = PERSISTENCE * (1 - keep)
        mean, slope = mean + reach * slope, keep * slope
        variance += reach * (2 * shared + reach * slope_variance)
        variance += steep * PERSISTENCE * (2 * gap - reach * (3 - keep))
        shared = keep * (shared + reach * slope_variance) + steep * reach * (1 - keep)
        slope_variance = keep * keep * slope_variance + steep * (1 - keep * keep)

        width, blur = ball.width, noise(ball)
        weight = (ball.counts[0] + ball.counts[1]) / blur + width / prior
        pull = (ball.totals[0] + ball.totals[1]) / blur + PRIOR_MEAN * width / prior
        left = 1 / (1 + variance * weight)
        gain, push = weight * left, (pull - weight * mean) * left
        seen.append((mean, variance, shared, slope, slope_variance, left, gain, push, reach, keep))
        mean, slope = mean + variance * push, slope + shared * push
        slope_variance -= shared * shared * gain
        variance, shared = variance * left, shared * left

    # What the balls from here to the right end say of mean and slope, and how surely.
    news, slope_news = 0.0, 0.0
    sure, sure_shared, sure_slope = 0.0, 0.0, 0.0
    square, slopes_known = 0.0, 0.0
    for ball, before in zip(reversed(balls), reversed(seen), strict=True):
        mean, variance, shared, slope, slope_variance, left, gain, push, reach, keep = before
        lean = shared * gain
        news = left * news - lean * slope_news + push
        sure = left * left * sure - lean * (2 * left * sure_shared - lean * sure_slope) + gain
        sure_shared = left * sure_shared - lean * sure_slope
        ball.mean = mean + variance * news + shared * slope_news
        known = variance * (variance * sure + 2 * shared * sure_shared)
        known += shared * shared * sure_slope
        ball.variance = max(variance - known, LEAST_VARIANCE)
        slope += shared * news + slope_variance * slope_news
        known = shared * (shared * sure + 2 * slope_variance * sure_shared)
        known += slope_variance * slope_variance * sure_slope
        square += ball.width * slope * slope / steepest
        slopes_known += ball.width * max(1 - (slope_variance - known) / steep, 0.0)
        slope_news = reach * news + keep * slope_news
        sure_slope = reach * (reach * sure + 2 * keep * sure_shared) + keep * keep * sure_slope
        sure_shared = reach * sure + keep * sure_shared
    return Slopes(min(square, LARGE_SLOPES), slopes_known)
