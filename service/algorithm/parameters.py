"""The presets, the paper's parameters, and the constants of a ball that follow from them.

Every formula of the paper's with a Lipschitz constant, a noise level or a logarithm in it lives
here and nowhere else: the engine stores the resulting numbers with each ball and only compares
them.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

# What a preset of the paper's sets; `None` stands for its formula.
_PAPER: dict[str, Any] = {
    "lipschitz": 1.0,
    "buckets": 64,
    "neighbours": None,
    "grid": 200,
    "flag_coefficient": None,
    "confidence_coefficient": 6.0,
    "diameter_coefficient": 2.0,
    "cluster_ratio": 3 / 16,
    "max_depth": 20,
    "patience": 4,
    "sampling": "round_robin",
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": _PAPER,
    "simulation": _PAPER | {"buckets": 1, "neighbours": 26, "flag_coefficient": 4.0},
}
# What the preset `adaptive` sets; it has no use for the paper's other parameters.
ADAPTIVE: dict[str, Any] = {
    "noise": "auto",
    "horizon": None,
    "lipschitz": "auto",
    "confidence_coefficient": 0.75,
    "max_depth": 10,
}
DEFAULT_PRESET: Literal["adaptive"] = "adaptive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """One tenant's parameters, resolved: nothing in here is left to a default."""

    horizon: int
    noise: float
    lipschitz: float
    buckets: int
    neighbours: int | None
    grid: int
    flag_coefficient: float
    confidence_coefficient: float
    diameter_coefficient: float
    cluster_ratio: float
    max_depth: int
    patience: int
    sampling: str

    @classmethod
    def resolve(cls, preset: str, *, horizon: int, noise: float, **overrides: Any) -> "Parameters":
        """The preset with the overrides that are not `None` laid over it."""
        given = {name: value for name, value in overrides.items() if value is not None}
        values = PRESETS[preset] | given
        if values["flag_coefficient"] is None:
            values["flag_coefficient"] = 6 * noise**2 / values["lipschitz"] ** 2
        return cls(horizon=horizon, noise=noise, **values)

    def bias(self, width: float) -> float:
        """What the width of a ball adds to its UCB: c_diam·L·Δ."""
        return self.diameter_coefficient * self.lipschitz * width

    @property
    def confidence(self) -> float:
        """The numerator under the root of the UCB: c_conf·σ²·ln T."""
        return self.confidence_coefficient * self.noise**2 * math.log(self.horizon)

    def ucb(self, *, total: float, n: float, width: float) -> float:
        """What a ball with `n` rewards may be worth at the most."""
        return total / n + self.bias(width) + math.sqrt(self.confidence / n)

    def flag_at(self, depth: int) -> float:
        """The number of rewards at which an active ball is flagged: c_flag·ln T / Δ²."""
        if depth >= self.max_depth:
            return math.inf
        return self.flag_coefficient * math.log(self.horizon) / 4.0**-depth

    def neighbours_for(self, *, arms: int, width: float) -> int:
        """k: the samples that each arm owes each bucket, and the window of the k-NN mean."""
        if self.neighbours is not None:
            return self.neighbours
        logarithm = math.log(self.horizon * arms)
        scale = self.lipschitz**2 * width**2
        return max(1, math.ceil(5431 * self.noise**2 * logarithm / scale))

    def issue_limit(self, k: int) -> int:
        """How often an arm of a flagged ball is asked for samples before it is set aside."""
        return self.patience * k * self.buckets
