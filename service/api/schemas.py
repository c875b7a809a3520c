"""What the calls take and answer.

Types are strict: no text for a number, no NaN, no unknown field.
"""

import hashlib
import re
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from service.algorithm import ADAPTIVE, DEFAULT_PRESET, PRESETS, Parameters, config_fields
from service.algorithm.scales import scale_from
from service.api.scale_schemas import ContextScale, UnitScale
from service.api.strict import Number, Strict

MOST_ARMS = 100_000
# Four bytes each, in one string of the store.
MOST_CELLS = 10_000_000
# Twenty bytes each; a string of the store has 512 MiB at the most.
MOST_SAMPLES = 26_000_000
# Eight bytes each, in the memory of the worker that splits.
MOST_POINTS = 2**25
# Wide enough for any use, narrow enough that no sum or bound of them leaves the floats.
LARGEST_REWARD = 1e6
LARGEST = 1e3
# Between narrower balls the variance of a curve is lost in rounding.
DEEPEST_CURVE = 16

Preset = Literal["adaptive", "paper", "simulation"]
TenantName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", examples=["shop"])]
# What would not survive the way to /tenants/TENANT/arms/ARM: "." and "..", control characters.
_ARM_NAME = r"^(\.{3}|\.{0,2}[^.\x00-\x1f\x7f-\x9f])[^\x00-\x1f\x7f-\x9f]*$"


def _fits_a_path(name: str) -> str:
    if re.fullmatch(_ARM_NAME, name) is None:
        message = "an arm's name has no control characters, and is not '.' or '..'; name it anew"
        raise PydanticCustomError("arm_name", message)
    return name


ArmName = Annotated[
    str,
    Field(min_length=1, max_length=128, json_schema_extra={"pattern": _ARM_NAME}),
    AfterValidator(_fits_a_path),
]
Arms = Annotated[
    Annotated[int, Field(ge=1, le=MOST_ARMS), Tag("count")]
    | Annotated[
        list[ArmName], Field(min_length=1, max_length=MOST_ARMS, fail_fast=True), Tag("names")
    ],
    Discriminator(lambda arms: "names" if isinstance(arms, list) else "count"),
]
Reward = Annotated[float, Field(ge=-LARGEST_REWARD, le=LARGEST_REWARD, allow_inf_nan=False)]
Auto = Annotated[Literal["auto"], Tag("word")]
_auto_or_number = Discriminator(lambda value: "word" if isinstance(value, str) else "number")
Noise = Annotated[
    Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False), Tag("number")] | Auto,
    _auto_or_number,
]
Lipschitz = Annotated[
    Annotated[float, Field(ge=1e-3, le=LARGEST, allow_inf_nan=False), Tag("number")] | Auto,
    _auto_or_number,
]
Coefficient = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86_400, allow_inf_nan=False)]
LogEntries = Annotated[int, Field(ge=0, le=10**8)]
SplitWait = Annotated[int, Field(ge=0, le=60_000)]
Rows = Annotated[
    list[Annotated[list[Number], Field(min_length=1, max_length=10_000, fail_fast=True)]],
    Field(min_length=1, max_length=MOST_ARMS, fail_fast=True),
]


class LearnedSimilarity(Strict):
    """Arm distances are learned from the rewards."""

    kind: Literal["learned"]


class CurvesSimilarity(Strict):
    """Reward curves are given: for each arm its values on an even grid over [0, 1]."""

    kind: Literal["curves"]
    curves: Rows


class FeaturesSimilarity(Strict):
    """Arm features are given; distances are Euclidean."""

    kind: Literal["features"]
    features: Rows


class NoSimilarity(Strict):
    """Every arm is learned by itself."""

    kind: Literal["none"]


Similarity = Annotated[
    LearnedSimilarity | CurvesSimilarity | FeaturesSimilarity | NoSimilarity,
    Discriminator("kind"),
]


class TenantConfig(Strict):
    """The configuration of a tenant; what is left out comes from the preset."""

    arms: Arms = Field(description="How many arms, or their names", examples=[50])
    preset: Preset = DEFAULT_PRESET
    horizon: int | None = Field(
        default=None,
        ge=2,
        le=10**12,
        description="T, the trials to plan for; `adaptive` can do without it, and doubles "
        "one that is over",
    )
    noise: Noise | None = Field(
        default=None,
        description="σ, the rewards' standard deviation; `adaptive` learns it if it is `auto` or "
        "left out",
    )
    lipschitz: Lipschitz | None = Field(
        default=None,
        description="L, the most that a mean may change between the contexts 0 and 1; `adaptive` "
        "starts at 1, or at 2 where rewards are noisy, and raises it when they show more, if it is "
        "`auto` or left out",
    )
    buckets: int | None = Field(default=None, ge=1, le=1024)
    neighbours: int | None = Field(default=None, ge=1, le=10**6)
    grid: int | None = Field(default=None, ge=1, le=10_000)
    flag_coefficient: Coefficient | None = None
    confidence_coefficient: Coefficient | None = None
    diameter_coefficient: Coefficient | None = None
    cluster_ratio: Coefficient | None = None
    max_depth: int | None = Field(default=None, ge=1, le=30)
    patience: int | None = Field(default=None, ge=1, le=1000)
    sampling: Literal["round_robin", "sequential"] | None = None
    similarity: Similarity | None = None
    reward_range: list[Reward] = Field(
        default=[0.0, 1.0],
        min_length=2,
        max_length=2,
        description="The lowest and the highest mean reward there may be; `noise` and `lipschitz` "
        "are told on the scale on which they are 0 and 1",
    )
    context_scale: ContextScale = Field(
        default=UnitScale(kind="unit"),
        description="How the contexts that are sent become contexts from 0 to 1",
    )
    reward_window_seconds: Seconds = 3600
    retention_seconds: Seconds = 3600
    default_reward: Reward | None = Field(
        default=None,
        description="What a decision is credited with that has no reward when its window closes; "
        "with nothing if it is left out",
    )
    exploration_floor: Share = Field(
        default=0.0,
        description="The share of selects that play an eligible arm drawn uniformly, so that "
        "every arm has a known probability",
    )
    holdout: Share = Field(
        default=0.0,
        description="The share of selects that play an arm drawn uniformly and are not learned "
        "from: what the rest is compared with",
    )
    log_entries: LogEntries = Field(
        default=0, description="How long the decision log is, about; 0 for none"
    )
    split_wait_ms: SplitWait = 1000

    @model_validator(mode="after")
    def _fits_together(self) -> "TenantConfig":
        if not isinstance(self.arms, int) and len(set(self.arms)) < len(self.arms):
            raise PydanticCustomError("arms", "arms: names must be unique")
        low, high = self.reward_range
        if not high - low >= 1e-6:
            message = "reward_range: the second number must be above the first, by 1e-6 or more"
            raise PydanticCustomError("reward_range", message)
        if self.preset == "adaptive":
            self._fits_adaptive()
        else:
            self._fits_the_paper(self.preset)
        return self

    def _fits_adaptive(self) -> None:
        if self.max_depth is not None and self.max_depth > DEEPEST_CURVE:
            message = "max_depth: the preset 'adaptive' takes {most} at the most"
            raise PydanticCustomError("preset", message, {"most": DEEPEST_CURVE})
        ours = config_fields("adaptive")
        for name in config_fields("paper"):
            if name not in ours and getattr(self, name) is not None:
                message = (
                    "{field}: the preset 'adaptive' has no use for it; leave it out, or name the "
                    "preset 'paper' or 'simulation'"
                )
                raise PydanticCustomError("preset", message, {"field": name})

    def _fits_the_paper(self, preset: str) -> None:
        told = {name: getattr(self, name) for name in ("horizon", "noise", "lipschitz")}
        told["lipschitz"] = told["lipschitz"] or PRESETS[preset]["lipschitz"]
        for name, value in told.items():
            if value in (None, "auto"):
                message = "{field}: the preset '{preset}' needs a number; 'adaptive' does without"
                raise PydanticCustomError("preset", message, {"field": name, "preset": preset})
        arms = self.arms if isinstance(self.arms, int) else len(self.arms)
        size = {
            name: getattr(self, name) or PRESETS[preset][name] or 1
            for name in ("buckets", "grid", "neighbours", "patience")
        }
        samples = size["buckets"] * size["neighbours"] * size["patience"]
        for field, product, each, most in (
            ("buckets", "buckets", size["buckets"], MOST_CELLS),
            ("grid", "grid", size["grid"], MOST_POINTS),
            ("neighbours", "buckets times neighbours times patience", samples, MOST_SAMPLES),
        ):
            if arms * each > most:
                message = "{field}: arms times {product} may be {most} at the most"
                about = {"field": field, "product": product, "most": most}
                raise PydanticCustomError("size", message, about)
        for field in ("curves", "features"):
            rows = getattr(self.similarity, field, None)
            if rows is None:
                continue
            if len(rows) != arms:
                message = "similarity.{field}: {rows} rows for {arms} arms; give one row an arm"
                raise PydanticCustomError(
                    "rows", message, {"field": field, "rows": len(rows), "arms": arms}
                )
            if len({len(row) for row in rows}) > 1:
                message = "similarity.{field}: all rows must have the same length"
                raise PydanticCustomError("rows", message, {"field": field})

    def digest(self) -> str:
        """Tells one body from another, as they were sent."""
        return hashlib.sha256(self.model_dump_json(exclude_unset=True).encode()).hexdigest()

    def settings(self) -> dict[str, Any]:
        """Everything resolved: a later default does not change a tenant made today."""
        sent = self.model_dump()
        names = config_fields(self.preset)
        given = {name: sent[name] for name in names if sent[name] is not None}
        if self.preset == "adaptive":
            resolved = {"preset": self.preset, **ADAPTIVE, **given}
        else:
            given.pop("preset")
            similarity = given.pop("similarity", {"kind": "learned"})
            parameters = Parameters.resolve(self.preset, **given)
            resolved = {"preset": self.preset, "similarity": similarity, **asdict(parameters)}
        others = {name: sent[name] for name in sent if name not in config_fields("paper")}
        others["context_scale"] = scale_from(sent["context_scale"]).setting()
        return others | resolved


class TenantCreated(BaseModel):
    """A tenant; the key is shown when it is created, and never again."""

    tenant: str
    key_id: str | None = None
    api_key: str | None = None
    config: dict[str, Any]


class TenantList(BaseModel):
    """The names of all tenants."""

    tenants: list[str]


class Rewards(BaseModel):
    """Rewards: how many, and their mean."""

    rewards: int
    mean: float | None


class Uplift(BaseModel):
    """How much more decisions earn than those of the holdout, since there is one.

    `low` and `high` are the ends of a 95 % interval.
    """

    learned: Rewards
    holdout: Rewards
    difference: float | None
    low: float | None
    high: float | None


class KeyState(BaseModel):
    """A key that opens a tenant; with `expires_at` null it does so until it is revoked."""

    key_id: str
    created_at: datetime
    expires_at: datetime | None


class TenantState(BaseModel):
    """A tenant's configuration and counters, and the uplift if it has a holdout.

    Its keys are shown to the admin, others get null.
    """

    tenant: str
    created_at: datetime
    keys: list[KeyState] | None
    config: dict[str, Any]
    counters: dict[str, int | float]
    uplift: Uplift | None


class Arm(BaseModel):
    """An arm of the catalogue."""

    arm: str
    state: Literal["live", "paused"]


class ArmList(BaseModel):
    """The catalogue."""

    tenant: str
    arms: list[Arm]


class ArmChange(Strict):
    """What is to become of an arm."""

    paused: bool


class Ball(BaseModel):
    """One ball of the partition; `ucb` is null while it is infinite, `fill` unless flagged.

    Under `adaptive`, `n` is rounded: what a ball had counted is shared out when it is split.
    """

    id: int
    interval: tuple[float, float]
    depth: int
    index: int
    phase: Literal["active", "flagged"]
    arms: list[str]
    n: int
    mean: float | None
    ucb: float | None
    fill: float | None


class Partition(BaseModel):
    """Every ball: together they cover [0, 1] times all arms exactly once."""

    tenant: str
    balls: list[Ball]


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(BaseModel):
    """An error, after RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] | None = None
