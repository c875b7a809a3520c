"""What a tenant's settings must be when they come from a file: those that a body resolves to."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from service.algorithm.scales import MOST_KNOTS
from service.api.schemas import TenantConfig
from service.api.strict import Number, Strict

# The formula of the paper's presets leads further than a body may go.
_FlagCoefficient = Annotated[float, Field(strict=True, ge=0, le=1e13, allow_inf_nan=False)]
_flag_coefficient: TypeAdapter[float] = TypeAdapter(_FlagCoefficient)
_Knots = Field(min_length=1, max_length=MOST_KNOTS, fail_fast=True)


class _LearnedScale(Strict):
    """A scale of quantiles as it is kept."""

    kind: Literal["quantiles"]
    values: Annotated[list[Number], _Knots]
    places: Annotated[list[Annotated[Number, Field(ge=0, le=1)]], _Knots]


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raises a `ValueError` unless these may be the settings of a tenant."""
    body = TenantConfig.model_validate({**settings, **_as_sent(settings)})
    # Nothing is missing, and nothing is left to a default.
    if {**body.settings(), **_beyond_a_body(settings)} != settings:
        raise ValueError("the settings are not resolved")


def _as_sent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """In the place of what no body says, what every body may say."""
    return dict.fromkeys(_beyond_a_body(settings).keys() - {"context_scale"}) | (
        {"context_scale": {"kind": "unit"}} if _is_learned(settings) else {}
    )


def _beyond_a_body(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept in another form than bodies have it, once it is checked."""
    found = {}
    if "flag_coefficient" in settings:
        found["flag_coefficient"] = _flag_coefficient.validate_python(settings["flag_coefficient"])
    if _is_learned(settings):
        scale = settings["context_scale"]
        knots = _LearnedScale.model_validate(scale)
        rises = sorted(set(knots.values)) == knots.values and sorted(knots.places) == knots.places
        if not rises or len(knots.values) != len(knots.places):
            raise ValueError("the context scale does not rise")
        found["context_scale"] = scale
    return found


def _is_learned(settings: Mapping[str, Any]) -> bool:
    scale = settings["context_scale"]
    return isinstance(scale, dict) and "places" in scale
