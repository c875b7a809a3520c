"""What a learner is made from: the number of arms, the parameters, the similarity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.algorithm.parameters import DEFAULT_PRESET, Parameters
from service.algorithm.similarity import Learned, Similarity, similarity_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of a learner."""

    arms: int
    parameters: Parameters
    similarity: Similarity = field(default_factory=Learned)

    @classmethod
    def resolve(
        cls,
        *,
        arms: int,
        horizon: int,
        noise: float,
        preset: str = DEFAULT_PRESET,
        similarity: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> "Config":
        """From the same names that a tenant's configuration has in the HTTP API."""
        return cls(
            arms=arms,
            parameters=Parameters.resolve(horizon=horizon, noise=noise, preset=preset, **overrides),
            similarity=similarity_from(similarity or {"kind": "learned"}),
        )

    def needs_samples(self, arms: int) -> bool:
        """Whether a flagged ball of so many arms must be sampled before it can be split."""
        return arms > 1 and self.similarity.needs_samples
