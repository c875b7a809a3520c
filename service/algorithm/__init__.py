"""The algorithms, in numpy and plain Python; they know neither Redis nor HTTP."""

from service.algorithm.adaptive import AdaptiveDecision, AdaptiveLearner
from service.algorithm.catalogue import NoArm
from service.algorithm.config import (
    AdaptiveConfig,
    AnyConfig,
    Config,
    config_fields,
    resolve,
)
from service.algorithm.intervals import Interval
from service.algorithm.learner import Decision, Learner
from service.algorithm.parameters import ADAPTIVE, DEFAULT_PRESET, PRESETS, Parameters
from service.algorithm.subpartition import SAMPLE, sub_partition

__all__ = [
    "ADAPTIVE",
    "DEFAULT_PRESET",
    "PRESETS",
    "SAMPLE",
    "AdaptiveConfig",
    "AdaptiveDecision",
    "AdaptiveLearner",
    "AnyConfig",
    "Config",
    "Decision",
    "Interval",
    "Learner",
    "NoArm",
    "Parameters",
    "config_fields",
    "learner_for",
    "resolve",
    "sub_partition",
]


def learner_for(config: AnyConfig) -> Learner | AdaptiveLearner:
    """The sequential algorithm of the configuration's preset."""
    if isinstance(config, AdaptiveConfig):
        return AdaptiveLearner(config)
    return Learner(config)
