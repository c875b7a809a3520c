"""How a tenant's configuration says what its contexts are: the setting `context_scale`."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, model_validator
from pydantic_core import PydanticCustomError

from service.api.strict import Number, Strict

# Eight bytes each, in the body of a call and, until the scale is frozen, in the store.
MOST_VALUES = 10_000
MOST_CONTEXTS = 10_000
LEAST_CONTEXTS = 10
DEFAULT_CONTEXTS = 200


class UnitScale(Strict):
    """Contexts are sent as numbers from 0 to 1."""

    kind: Literal["unit"]


class LinearScale(Strict):
    """`low` becomes 0 and `high` 1; what lies outside is moved to the nearer end, or refused."""

    kind: Literal["linear"]
    low: Number
    high: Number
    outside: Literal["clamp", "refuse"] = "clamp"

    @model_validator(mode="after")
    def _is_rising(self) -> "LinearScale":
        if not self.low < self.high:
            raise PydanticCustomError("scale", "high: must be above low")
        return self


class QuantilesScale(Strict):
    """A context becomes the share of these values that lies below it: of a sample of contexts."""

    kind: Literal["quantiles"]
    values: Annotated[list[Number], Field(min_length=2, max_length=MOST_VALUES, fail_fast=True)]

    @model_validator(mode="after")
    def _tells_contexts_apart(self) -> "QuantilesScale":
        if len(set(self.values)) < 2:
            message = "values: at least two must differ; give a sample of your contexts"
            raise PydanticCustomError("scale", message)
        return self


class AutoScale(Strict):
    """As `quantiles`, of the tenant's first contexts: learned from so many, then frozen."""

    kind: Literal["auto"]
    contexts: int = Field(default=DEFAULT_CONTEXTS, ge=LEAST_CONTEXTS, le=MOST_CONTEXTS)


ContextScale = Annotated[
    UnitScale | LinearScale | QuantilesScale | AutoScale, Discriminator("kind")
]
