"""The preset `adaptive` with one of its rules taken away, to see what each is worth."""

import math

from service.algorithm import AdaptiveLearner
from service.algorithm.config import AdaptiveConfig
from service.algorithm.curve import NO_BENDS, Ball, Bends, Curve
from service.algorithm.partition import Partition


class NoSlopeLimit(AdaptiveLearner):
    """Bounds may rise faster than L allows."""

    def _bounds(self, balls: list[Ball]) -> list[float]:
        return [self._ucb(ball) for ball in balls]


class _Unbalanced(Partition):
    def _balance(self, curve: Curve) -> None:
        pass


class NoBalance(AdaptiveLearner):
    """A wide ball may lie next to a narrow one."""

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self._partition = _Unbalanced(self.catalogue, self.model)


class _Unmerged(Partition):
    def _merge(self, curve: Curve, place: int, told: float) -> bool:  # noqa: ARG002 - never
        return False


class NoMerging(AdaptiveLearner):
    """A curve that has all its balls keeps them where they are."""

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self._partition = _Unmerged(self.catalogue, self.model)


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


ABLATIONS: dict[str, type[AdaptiveLearner]] = {
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
