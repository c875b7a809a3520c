"""The preset `adaptive` with one of its rules taken away, to see what each is worth.

And with what no learner can know: which arms are alike, for what pooling them could gain at the
most.
"""

import math

from loadtest.environments import Floats
from service.algorithm import AdaptiveDecision, AdaptiveLearner
from service.algorithm.config import AdaptiveConfig
from service.algorithm.curve import NO_BENDS, Ball, Bends, Curve
from service.algorithm.partition import Partition


class NoSlopeLimit(AdaptiveLearner):
    """Bounds may rise faster than L allows."""

    def _bounds(self, balls: list[Ball]) -> list[float]:
        return [self._ucb(ball) for ball in balls]


class _OtherPartition(AdaptiveLearner):
    """Its balls are made otherwise."""

    made_by: type[Partition]

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self._partition = self.made_by(self.catalogue, self.model)


class _Unbalanced(Partition):
    def _balance(self, curve: Curve) -> None:
        pass


class NoBalance(_OtherPartition):
    """A wide ball may lie next to a narrow one."""

    made_by = _Unbalanced


class _Unmerged(Partition):
    def _merge(self, curve: Curve, place: int, told: float) -> bool:  # noqa: ARG002 - never
        return False


class NoMerging(_OtherPartition):
    """A curve that has all its balls keeps them where they are."""

    made_by = _Unmerged


class NoSharing(AdaptiveLearner):
    """A ball knows of its own rewards only."""

    def _estimate(self, balls: list[Ball]) -> Bends:
        for ball in balls:
            super()._estimate([ball])
        return NO_BENDS


class NoSteepness(AdaptiveLearner):
    """Curves are taken to be as steep as beforehand, whatever they turn out to be."""

    def _estimate(self, balls: list[Ball]) -> Bends:
        super()._estimate(balls)
        return NO_BENDS


class NotBinary(AdaptiveLearner):
    """Rewards that are 0 or 1 have as much noise as any."""

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self.model.binary = False


class ConstantConfidence(AdaptiveLearner):
    """The bonus goes by ln T, not by the share of the future that a better arm would serve."""

    def _at_stake(self, variance: float, noise: float) -> float:  # noqa: ARG002 - constant
        return math.log(self.model.horizon)


class EveryArm(AdaptiveLearner):
    """Each arm is tried as soon as no bound reaches 1, however many were tried before."""

    def _take_new_arm(self, best: Ball) -> bool:
        return best.ucb < 1


class NoFlight(AdaptiveLearner):
    """Plays do not count until their reward has come."""

    def _let_fly(self, ball: Ball, x: float) -> None:
        pass


class ToldAlike(AdaptiveLearner):
    """An arm with so many rewards is told who has the same curve, and hands its rewards over.

    From then on the first such arm is played for all. `places` are the true ones of the arms: those
    at the same place are alike.
    """

    def __init__(self, config: AdaptiveConfig, *, places: Floats, after: int) -> None:
        super().__init__(config)
        self._kinds = places.round(9).tolist()
        self._after = after
        self._first: dict[float, int] = {}  # by kind
        self._samples: dict[int, list[tuple[float, float]]] = {}

    def reward(self, decision: AdaptiveDecision, reward: float) -> None:
        """To the arm, or to the one that is played for it."""
        arm, sample = decision.arm, (decision.x, reward)
        if arm in self.catalogue.paused:
            curve = self.curves[arm]
            curve.land(curve.at(decision.x))
            self.model.count(reward, is_first=False)
            self.model.look_ahead()
            self._hand_over(arm, [sample])
            return
        super().reward(decision, reward)
        samples = self._samples.setdefault(arm, [])
        samples.append(sample)
        if len(samples) == self._after and self._first.setdefault(self._kinds[arm], arm) != arm:
            self.pause(arm)
            curve = self.curves[arm]
            self.model.forget_bends(curve.bends)
            curve.bends, curve.rewards = NO_BENDS, 0
            self._hand_over(arm, samples)

    def _hand_over(self, arm: int, samples: list[tuple[float, float]]) -> None:
        """What the model knows of them already, their first curve learns."""
        curve = self.curves[self._first[self._kinds[arm]]]
        for x, reward in samples:
            curve.rewards += 1
            self._partition.refine(curve, curve.at(x), x).earn(x, reward)
        self._score(curve)


_WITHOUT: dict[str, type[AdaptiveLearner]] = {
    "without the slope limit": NoSlopeLimit,
    "without balance": NoBalance,
    "without giving balls back": NoMerging,
    "without sharing between balls": NoSharing,
    "without the steepness learned": NoSteepness,
    "without the noise of 0 and 1": NotBinary,
    "with ln T for the share of the future": ConstantConfidence,
    "with every arm tried at once": EveryArm,
    "without plays in flight": NoFlight,
}
_TOLD_AFTER = {
    "told who is alike after 1 reward": 1,
    "told who is alike after 5 rewards": 5,
}
ABLATIONS = (*_WITHOUT, *_TOLD_AFTER)


def ablated(name: str, config: AdaptiveConfig, *, places: Floats) -> AdaptiveLearner:
    """The learner of this name, of `ABLATIONS`."""
    if name in _TOLD_AFTER:
        return ToldAlike(config, places=places, after=_TOLD_AFTER[name])
    return _WITHOUT[name](config)
