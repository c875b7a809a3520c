"""What the preset `adaptive` learns beyond single arms: what moves the bounds of all.

The steps keep it as one record (lua/lib/adaptive/model.lua).
"""

import math
from dataclasses import dataclass, field

from service.algorithm.config import AdaptiveConfig
from service.algorithm.curve import PRIOR_MEAN, Ball, Bends

# Without a horizon there may be so many times as many trials in all as there were, at the least;
# counted in powers of two.
AHEAD = 2
# The noise that is learned: how much evidence a new value takes, and when half of the evidence is
# dropped. A squared residual counts up to `LARGE_SQUARE`, or `SURPRISE` times what was expected.
LEAST_NOISE = 1e-12
EVIDENCE = 4.0
MOST_EVIDENCE = 64.0
LARGE_SQUARE = 0.5
SURPRISE = 25.0
# Where all rewards are 0 or 1 they have the variance of their mean, but not less than this, and are
# not expected to have less than that where the noise is learned; until it is, they have the third.
LEAST_BINARY = 0.01
LEAST_EXPECTED = 0.05
FIRST_BINARY = 0.005
# The slope L that is learned: how many standard deviations make a mean sure, and how many times a
# ball's own rise is nothing to go by, and where it ends.
SURELY = 2.0
RISE = 2.0
STEEPEST = 16.0
# Where rewards have a larger variance than this, it would show late, if at all: it is taken to be
# this at least.
LOUD = 0.005
CAUTIOUS = 2.0
# How steep curves are taken to be, as a variance and in units of what they are taken for
# beforehand: between these two, in steps of two.
FLATTEST, MOST_BENT = 1 / 64, 2.0
# Curves bend where arms are best, not evenly. So what they bend in all is to be this share of what
# would be expected; where they are taken to be flatter, more of it: the share over this power.
BENT_SHARE, BENT_POWER = 0.25, 0.2
# Fewer arms than a crowd are each best in a wider range, where a bend matters less: the share is
# larger by this power of how few they are. But none of them has others about as good, and must not
# be given up by a curve that is taken to be flatter than this, before there were so many rewards.
CROWD, FEW_POWER = 50, 0.8
FLATTEST_OF_FEW, FEW_REWARDS = 1 / 8, 4000
# How many times more or less it has to be, and how much is taken to be known from the start.
BENT_MARGIN, BENT_KNOWN = 1.2, 10.0
# There are so many times as many rewards before the next step, of L by bends too: where neither of
# two values fits, it would go to and fro with every few rewards, and all curves be scored again.
BENT_PAUSE = 1.1
# Where the steepest there may be still bend by this share, L is too small.
TOO_BENT = 0.45
# Values that move all bounds move in steps of at least this factor.
STEP = math.sqrt(2)


@dataclass(slots=True, eq=False)
class Model:
    """Noise, slope L, steepness and horizon as they are taken to be, and the rewards so far.

    `step` counts how often all bounds have moved; curves before `cursor` have been scored since.
    """

    config: AdaptiveConfig
    variance: float = field(init=False)
    shown_lipschitz: float = field(init=False)  # as it was told, or as rewards have shown it
    lipschitz: float = field(init=False)
    horizon: float = field(init=False)
    loudest: float = 0.0
    step: int = 0
    cursor: int = 0
    rewards: int = 0
    reward_total: float = 0.0
    first_rewards: float = 0.0
    arms_rewarded: int = 0
    evidence: float = 0.0
    squares: float = 0.0
    binary: bool = True
    steepness: float = 1.0
    bent_at: int = 0  # the rewards when the steepness moved, if nothing else has since
    bend_squares: float = 0.0
    bends_known: float = 0.0

    def __post_init__(self) -> None:
        self.variance = self.config.first_variance
        self.shown_lipschitz = self.config.first_lipschitz
        self.horizon = self.config.first_horizon
        self._take_lipschitz()

    @property
    def typical_first_reward(self) -> float:
        """What an arm brings at its first play, on average."""
        return self.first_rewards / self.arms_rewarded if self.arms_rewarded else PRIOR_MEAN

    @property
    def to_come(self) -> float:
        """The trials that may still come."""
        return self.horizon - self.rewards

    @property
    def slopes(self) -> float:
        """How many times the variance a slope has beforehand that it has where L is 1.

        Where the noise is not known, an L that was taken by caution makes slopes no larger.
        """
        lipschitz = self.lipschitz if self._noise_is_known else self.shown_lipschitz
        return lipschitz * lipschitz * self.steepness

    @property
    def scale(self) -> float:
        """How many times the usual variance a mean has beforehand.

        An average further than 1 from 0: the range was told wrongly, and means may be anywhere.
        """
        average = self.reward_total / max(self.rewards, 1)
        return max(average * average, 1.0)

    def noise(self, ball: Ball) -> float:
        """The variance of a reward around the mean of a ball, wherever in it the context is."""
        rise = self.lipschitz * ball.width
        return self.reward_variance(ball) + rise * rise / 12

    def reward_variance(self, ball: Ball) -> float:
        """The variance of a reward at the centre of a ball.

        Rewards that are all 0 or 1 have the less of it the nearer to 0 or 1 the mean is; it is
        taken to be up to a standard deviation nearer to the middle than it seems. Before their
        noise is learned, the first few must not rule an arm out.
        """
        if not self.binary:
            return self.variance
        if self._awaits_noise:
            return FIRST_BINARY
        unsure = math.sqrt(ball.variance)
        mean = min(max(0.5, ball.mean - unsure), ball.mean + unsure)
        return min(self.variance, max(mean * (1 - mean), LEAST_BINARY))

    def told(self, count: float, width: float) -> float:
        """How much so many rewards tell of what a curve rises by within a ball this wide.

        By themselves, they can tell a rise whose square is the noise over their count. But where a
        ball has many, its neighbours have, and these speak for it too: by the root of the count.
        """
        rise = self.lipschitz * width
        return count * math.sqrt(count) * rise * rise

    def count(self, reward: float, *, is_first: bool) -> None:
        """One more reward; the first of its arm, or not."""
        self.rewards += 1
        self.reward_total += reward
        if is_first:
            self.first_rewards += reward
            self.arms_rewarded += 1
        if self.binary and reward not in (0.0, 1.0):
            self.binary = False
            if self.rewards > 1:
                self._begin_step()

    def learn_noise(self, ball: Ball, reward: float, *, weight: float) -> None:
        """From what a reward differs from those before it in its ball; the arms count alike.

        Of rewards that are all 0 or 1 it is the noise at a mean of ½, the most there may be: the
        best arms, which are played most, are often near 1 and have little.
        """
        count = ball.counts[0] + ball.counts[1]
        if count < 1:
            return
        residual = reward - (ball.totals[0] + ball.totals[1]) / count
        square = residual * residual * count / (count + 1)
        square = min(square, max(SURPRISE * self.variance, LARGE_SQUARE))
        if self.binary:
            square /= 4 * max(ball.mean * (1 - ball.mean), LEAST_EXPECTED)
        self.evidence += weight
        self.squares += weight * square
        variance = max(self.squares / self.evidence, LEAST_NOISE)
        if self.evidence < EVIDENCE:
            return
        self.loudest = max(self.loudest, variance)
        moved = max(variance / self.variance, self.variance / variance)
        if moved > STEP:
            self.variance = variance
            self.evidence = self.squares = 0.0
            self._take_lipschitz()
            self._begin_step()
        elif self.evidence >= MOST_EVIDENCE:
            self.evidence, self.squares = self.evidence / 2, self.squares / 2

    def learn_slope(self, balls: list[Ball], ball: Ball) -> None:
        """A mean that is surely above what L allows from another ball shows L to be too small.

        Where the noise depends on the mean, that of the best arms, which are played most, is not
        that of the others: what is sure is judged by the loudest that was ever learned.
        """
        if self._awaits_noise:
            return
        unsure = SURELY
        if self.config.noise is None:
            unsure *= math.sqrt(self.loudest / self.variance)
        limit = min(
            other.mean
            + unsure * math.sqrt(other.variance)
            + self.lipschitz * abs(other.centre - ball.centre)
            for other in balls
        )
        at_least = ball.mean - unsure * math.sqrt(ball.variance)
        if at_least > limit + RISE * self.lipschitz * ball.width:
            self._take_steeper()

    def learn_steepness(
        self, before: Bends, now: Bends, *, curves: int, arms: int, arms_ever: int
    ) -> None:
        """From what one curve was known to bend, and is now; once as many have been scored as are.

        Not at once after the last such step, unless something else has moved all bounds since. What
        may be noise makes no curve steeper. L never falls: it waits until all arms there ever were
        have been looked at.
        """
        self.bend_squares += now.square - before.square
        self.bends_known += now.known - before.known
        if self.cursor < curves or self.rewards < BENT_PAUSE * self.bent_at:
            return
        few = max(CROWD / (arms * math.sqrt(max(self.lipschitz, 1.0))), 1.0)
        flattest = FLATTEST
        if few > 1:
            rewards = max(self.rewards, FEW_REWARDS)
            flattest = max(FLATTEST, FLATTEST_OF_FEW * FEW_REWARDS / rewards)
        usual = BENT_SHARE * math.pow(few, FEW_POWER) * math.pow(self.steepness, -BENT_POWER)
        share = (BENT_KNOWN * usual + self.bend_squares) / (BENT_KNOWN + self.bends_known)
        is_bent = share > usual * BENT_MARGIN and not self._awaits_noise
        if share < usual / BENT_MARGIN and self.steepness > flattest:
            self._take_steepness(self.steepness / 2)
        elif is_bent and self.steepness < MOST_BENT:
            self._take_steepness(self.steepness * 2)
        elif share > TOO_BENT and self.cursor >= arms_ever and self._bends_tell_slopes:
            self._take_steeper()

    def forget_bends(self, bends: Bends) -> None:
        """Those of a curve that is gone."""
        self.bend_squares -= bends.square
        self.bends_known -= bends.known

    def look_ahead(self) -> None:
        """Without a horizon it grows with the past; one that is over is doubled."""
        ahead = AHEAD if self.config.horizon is None else 1
        if self.rewards * ahead >= self.horizon:
            self.horizon *= 2
            self._begin_step()

    @property
    def _bends_tell_slopes(self) -> bool:
        """Whether L is learned from bends: in noise, which hides it from single balls.

        Only where curves are taken to be as steep as they may be. Without noise they bend more than
        they are taken to, however steep.
        """
        return self.steepness == MOST_BENT and self._hides_slopes and self._noise_is_known

    @property
    def _awaits_noise(self) -> bool:
        """Whether the noise is to be learned, and rewards have not told enough of it yet."""
        return self.config.noise is None and not self.loudest

    @property
    def _noise_is_known(self) -> bool:
        """Rewards of 0 or 1 whose noise is learned are taken for less noisy than they are."""
        return self.config.noise is not None or not self.binary

    @property
    def _hides_slopes(self) -> bool:
        """Whether L is to be learned, and rewards are too loud to show it."""
        return self.config.lipschitz is None and self.variance > LOUD

    def _take_steepness(self, steepness: float) -> None:
        self.steepness = steepness
        self._begin_step()
        self.bent_at = self.rewards

    def _take_steeper(self) -> None:
        steeper = min(self.lipschitz * STEP, STEEPEST)
        if steeper > self.shown_lipschitz:
            self.shown_lipschitz = steeper
            self._take_lipschitz()
            self._begin_step()

    def _take_lipschitz(self) -> None:
        self.lipschitz = self.shown_lipschitz
        if self._hides_slopes:
            self.lipschitz = max(self.shown_lipschitz, CAUTIOUS)

    def _begin_step(self) -> None:
        self.step += 1
        self.cursor = 0
        self.bent_at = 0
