"""What the calls of decisions take and answer, alone and in batches."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from service.api.schemas import Problem, Reward, Strict, TenantName

MOST_ITEMS = 1000

Phase = Literal["active", "flagged"]
Refused = Literal["conflict", "late", "unknown_decision"]


class SelectItem(Strict):
    """A context that wants an arm."""

    context: float = Field(ge=0, le=1, allow_inf_nan=False, examples=[0.42])
    decision_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = Field(
        default=None, description="Your own id; a repeat with the same id gets the first answer"
    )


class SelectRequest(SelectItem):
    """A context that wants an arm of a tenant."""

    tenant: TenantName


class SelectBatch(Strict):
    """Contexts of one tenant; each is taken as if it were sent alone, in this order.

    Splits that fall due on the way are made at the end.
    """

    tenant: TenantName
    items: list[SelectItem] = Field(min_length=1, max_length=MOST_ITEMS)


class Selection(BaseModel):
    """The arm to play, and the id under which its reward is awaited."""

    decision_id: str
    arm: str
    ball: int
    phase: Phase
    propensity: float
    expires_at: datetime


class Selected(Selection):
    """An item of a batch that was answered."""

    status: Literal["selected"] = "selected"


class NotSelected(BaseModel):
    """An item of a batch that was refused, and what it would be told if it were sent alone."""

    decision_id: str
    status: Literal["conflict"] = "conflict"
    problem: Problem


class Selections(BaseModel):
    """What became of each item, in the order of the items."""

    items: list[Selected | NotSelected]


class RewardItem(Strict):
    """The reward of a decision."""

    decision_id: Annotated[str, Field(max_length=1024)]
    reward: Reward = Field(examples=[1.0])


class RewardRequest(RewardItem):
    """The reward of a decision of a tenant."""

    tenant: TenantName


class RewardBatch(Strict):
    """Rewards of one tenant; each is taken as if it were sent alone, in this order.

    Splits that fall due on the way are made at the end.
    """

    tenant: TenantName
    items: list[RewardItem] = Field(min_length=1, max_length=MOST_ITEMS)


class RewardAnswer(BaseModel):
    """What became of the reward; `ball` is the one credited."""

    status: Literal["applied", "duplicate", "ignored"]
    ball: int | None = None
    phase: Phase | None = None


class Rewarded(RewardAnswer):
    """An item of a batch that was taken."""

    decision_id: str


class NotRewarded(BaseModel):
    """An item of a batch that was refused, and what it would be told if it were sent alone."""

    decision_id: str
    status: Refused
    problem: Problem


class Rewards(BaseModel):
    """What became of each item, in the order of the items."""

    items: list[Rewarded | NotRewarded]
