"""What the calls of decisions take and answer, alone and in batches."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from service.api.schemas import ArmName, Ball, Problem, Reward, TenantName
from service.api.strict import Number, Strict

MOST_ITEMS = 1000
# What keeps a select short, whoever asks for it: it holds up all tenants of the store.
MOST_RANKED = 50
MOST_ELIGIBLE = 1000
# A batch of so many takes a part of a second, and the service's limit for the store is three.
MOST_DECIDED = 2000

Phase = Literal["active", "flagged"]
State = Literal["open", "rewarded", "defaulted", "censored", "expired"]
NotChosen = Literal["conflict", "none_eligible", "invalid"]
Refused = Literal["conflict", "censored", "late", "unknown_decision"]


class SelectItem(Strict):
    """A context that wants an arm, or several."""

    context: Number = Field(
        examples=[0.42], description="On the tenant's `context_scale`: from 0 to 1 by default"
    )
    decision_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = Field(
        default=None,
        description="Your own id; a repeat with the same id and context gets the first answer, "
        "also with another `n` or `eligible`",
    )
    eligible: list[ArmName] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_ELIGIBLE,
        description="Only these arms may be played; all that are not paused if it is left out. To "
        "rule out some of many, pause them",
    )
    n: int = Field(
        default=1,
        ge=1,
        le=MOST_RANKED,
        description="How many arms are wanted, each a decision of its own",
    )


class SelectRequest(SelectItem):
    """A context that wants an arm of a tenant."""

    tenant: TenantName


class SelectBatch(Strict):
    """Contexts of one tenant; each is taken as if it were sent alone, in this order.

    Splits that fall due on the way are made at the end.
    """

    tenant: TenantName
    items: list[SelectItem] = Field(
        min_length=1,
        max_length=MOST_ITEMS,
        description=f"The sum of their `n` may be {MOST_DECIDED:,}",
    )

    @field_validator("items")
    @classmethod
    def _not_too_many_arms(cls, items: list[SelectItem]) -> list[SelectItem]:
        wanted = sum(item.n for item in items)
        if wanted > MOST_DECIDED:
            raise PydanticCustomError(
                "too_many_arms",
                "The items of a batch may want {most} arms in all, not {wanted}: send it in parts",
                {"most": f"{MOST_DECIDED:,}", "wanted": f"{wanted:,}"},
            )
        return items


class Choice(BaseModel):
    """An arm to play, and the id under which its reward is awaited.

    `propensity` is the probability with which this arm was chosen, in a ranking given the arms
    above it; `mapped_context` is where the context lies on the scale from 0 to 1 on which
    everything is learned.
    """

    decision_id: str
    arm: str
    ball: int
    phase: Phase
    propensity: float
    context: float
    mapped_context: float
    expires_at: datetime


class Selection(Choice):
    """The best arm; with `n` > 1 also all arms, best first.

    There may be fewer than were wanted, if fewer may be played.
    """

    ranking: list[Choice] | None = None


class Selected(Selection):
    """An item of a batch that was answered."""

    status: Literal["selected"] = "selected"


class NotSelected(BaseModel):
    """An item of a batch that was refused, and what it would be told if it were sent alone."""

    decision_id: str
    status: NotChosen
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


class DecisionBall(Ball):
    """The ball of a decision, as it is now; `split` if it has been split since."""

    phase: Literal["active", "flagged", "split"]  # type: ignore[assignment]  # one more


class RunnerUp(BaseModel):
    """What would have been next: a ball, or under the preset `adaptive` that of an arm."""

    ball: int | None = None
    arm: str | None = None
    ucb: float | None


class Why(BaseModel):
    """Why the arm was chosen, by what was known then.

    `flagged`: its ball needed samples, or it had never been tried. `ucb`: its ball had the largest
    UCB (null: infinite). `explored`: it was drawn for the exploration floor. `holdout`: it was
    drawn for the holdout.
    """

    rule: Literal["flagged", "ucb", "explored", "holdout"]
    ucb: float | None
    runner_up: RunnerUp | None


class DecisionState(BaseModel):
    """A decision: what was decided and why, and what has become of it.

    `ball_id` is the ball that it was made in, as the select told it. `ball` is that ball as it is
    now; under the preset `adaptive`, the one that has the arm at the context now (null: the arm has
    been retired).
    """

    tenant: str
    decision_id: str
    state: State
    context: float
    mapped_context: float
    arm: str
    phase: Phase
    propensity: float
    holdout: bool
    issued_at: datetime
    expires_at: datetime
    closed_at: datetime | None
    reward: float | None
    ball_id: int
    ball: DecisionBall | None
    why: Why


class Censored(BaseModel):
    """The decision is closed, and nothing will be learned from it."""

    status: Literal["censored"] = "censored"
