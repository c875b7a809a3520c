"""The algorithm itself, in numpy and plain Python; it knows neither Redis nor HTTP."""

from service.algorithm.config import Config
from service.algorithm.intervals import Interval
from service.algorithm.learner import Decision, Learner
from service.algorithm.parameters import DEFAULT_PRESET, PRESETS, Parameters
from service.algorithm.subpartition import SAMPLE, sub_partition

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "SAMPLE",
    "Config",
    "Decision",
    "Interval",
    "Learner",
    "Parameters",
    "sub_partition",
]
