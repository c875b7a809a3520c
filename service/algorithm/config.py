"""What a learner is made from: the number of arms, and all that the preset leaves to be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.algorithm.parameters import ADAPTIVE, DEFAULT_PRESET, Parameters
from service.algorithm.similarity import Learned, Similarity, similarity_from

# Where the preset `adaptive` starts with what it is not told: the variance of a reward, the slope
# L, and the trials to come.
FIRST_VARIANCE = 0.001
FIRST_LIPSCHITZ = 1.0
FIRST_HORIZON = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of a learner of the paper's presets."""

    arms: int
    parameters: Parameters
    similarity: Similarity = field(default_factory=Learned)

    @classmethod
    def resolve(
        cls,
        *,
        arms: int,
        preset: str = "simulation",
        similarity: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> "Config":
        """The preset with what is given laid over it."""
        return cls(
            arms=arms,
            parameters=Parameters.resolve(preset, **given),
            similarity=similarity_from(similarity or {"kind": "learned"}),
        )

    def needs_samples(self, arms: int) -> bool:
        """Whether a flagged ball of so many arms must be sampled before it can be split."""
        return arms > 1 and self.similarity.needs_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveConfig:
    """The whole configuration of a learner of the preset `adaptive`."""

    arms: int
    noise: float | None  # σ; learned from the rewards if it is not given
    horizon: int | None  # T; without it, it grows with the past
    lipschitz: float | None  # L; raised by what the rewards show if it is not given
    confidence_coefficient: float
    max_depth: int

    @classmethod
    def resolve(cls, *, arms: int, **given: Any) -> "AdaptiveConfig":
        """The preset with what is given laid over it."""
        values = ADAPTIVE | {name: value for name, value in given.items() if value is not None}
        for learned in ("noise", "lipschitz"):
            if values[learned] == "auto":
                values[learned] = None
        return cls(arms=arms, **values)

    @property
    def first_variance(self) -> float:
        """That of a reward, before the first one."""
        return FIRST_VARIANCE if self.noise is None else self.noise * self.noise

    @property
    def first_lipschitz(self) -> float:
        """L, before the first reward."""
        return FIRST_LIPSCHITZ if self.lipschitz is None else self.lipschitz

    @property
    def first_horizon(self) -> float:
        """How many trials there may be, before the first one."""
        return float(FIRST_HORIZON if self.horizon is None else self.horizon)


AnyConfig = Config | AdaptiveConfig


def config_fields(preset: str) -> list[str]:
    """What a configuration of this preset may say, besides the number of arms."""
    if preset == "adaptive":
        return ["preset", *ADAPTIVE]
    return ["preset", "similarity", *Parameters.__dataclass_fields__]


def resolve(*, arms: int, preset: str = DEFAULT_PRESET, **given: Any) -> AnyConfig:
    """From the same names that a tenant's configuration has in the HTTP API."""
    if preset == "adaptive":
        return AdaptiveConfig.resolve(arms=arms, **given)
    return Config.resolve(arms=arms, preset=preset, **given)
