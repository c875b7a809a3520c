"""What the calls answer.

Fields that an answer has beyond these are passed over, so that a newer service can be called.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Required, TypedDict


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """What is wrong with one field."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error, after RFC 9457."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    errors: list[FieldError] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The arm to play, and the id under which its reward is awaited."""

    decision_id: str
    arm: str
    ball: int
    phase: str
    propensity: float
    expires_at: datetime
    context: float
    mapped_context: float
    ranking: list["Selection"] = field(default_factory=list)  # best first, when n > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardAnswer:
    """What became of a reward; `duplicate` says that it was counted before."""

    status: str
    ball: int | None = None
    phase: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded(RewardAnswer):
    """An item of a batch that was taken."""

    decision_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An item of a batch that was refused, and what it would be told if it were sent alone."""

    decision_id: str
    status: str
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Selections:
    """What became of each item of a batch of selects, in the order of the items."""

    items: list[Selection | Refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """What became of each item of a batch of rewards, in the order of the items."""

    items: list[Rewarded | Refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class Censored:
    """A decision that was closed unlearned."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided and why, and its state."""

    decision_id: str
    tenant: str
    state: str
    context: float
    mapped_context: float
    arm: str
    phase: str
    propensity: float
    holdout: bool
    issued_at: datetime
    expires_at: datetime
    closed_at: datetime | None
    reward: float | None
    ball_id: int
    ball: dict[str, Any] | None
    why: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCreated:
    """A tenant; no key is shown when there already was one with this configuration."""

    tenant: str
    config: dict[str, Any]
    key_id: str | None = None
    api_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key that opens a tenant; without an expiry until it is revoked."""

    key_id: str
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantState:
    """A tenant's configuration and counters, for the admin its keys, with a holdout its uplift."""

    tenant: str
    created_at: datetime
    config: dict[str, Any]
    counters: dict[str, int | float]
    keys: list[Key] | None = None
    uplift: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantList:
    """The names of all tenants."""

    tenants: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ball:
    """One ball of the partition; `ucb` is none while it is infinite, `fill` unless flagged."""

    id: int
    interval: tuple[float, float]
    depth: int
    index: int
    phase: str
    arms: list[str]
    n: int
    mean: float | None
    ucb: float | None
    fill: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Every ball: together they cover [0, 1] times all arms exactly once."""

    tenant: str
    balls: list[Ball]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An arm and whether it is played."""

    arm: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """A tenant's arms."""

    tenant: str
    arms: list[Arm]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A further key of a tenant, shown this once."""

    key_id: str
    api_key: str
    expires_at: datetime | None = None


class LogEvent(TypedDict, total=False):
    """A line of the decision log; which fields it has depends on the event."""

    id: Required[str]
    event: Required[str]
    at: Required[str]
    decision_id: str
    context: float
    mapped_context: float
    arm: str
    ball: int
    phase: str
    propensity: float
    holdout: bool
    reward: float | None
