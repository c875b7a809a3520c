"""Every call of the API, once for both clients: what is sent, how its answer is read.

Nothing here is sent. A call can be sent again and again and is done once: decision ids are made
here, before the first try. `once` says of the few calls of which this is not true what to do.
"""

import json
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from typing import Any, Generic, Required, TypedDict, TypeVar, Unpack, cast
from urllib.parse import quote, urlencode

from pydantic import TypeAdapter

from service.client.answers import (
    Arms,
    Censored,
    Decision,
    NewKey,
    Partition,
    RewardAnswer,
    Rewards,
    Selection,
    Selections,
    TenantCreated,
    TenantList,
    TenantState,
)
from service.decision_ids import new_decision_id

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Answer]):
    """One call."""

    method: str
    path: str
    read: Callable[[bytes], Answer]
    body: bytes = b""  # JSON
    once: str = ""  # why it is not sent again when it may have been done, and what to do then


class TenantChanges(TypedDict, total=False):
    """What of a tenant's configuration can be changed."""

    default_reward: float | None
    split_wait_ms: int
    exploration_floor: float
    holdout: float
    log_entries: int


class TenantConfig(TenantChanges, total=False):
    """A tenant's configuration; what is left out comes from the preset."""

    arms: Required[int | Sequence[str]]
    preset: str
    horizon: int | None
    noise: float | str | None
    lipschitz: float | str | None
    buckets: int | None
    neighbours: int | None
    grid: int | None
    flag_coefficient: float | None
    confidence_coefficient: float | None
    diameter_coefficient: float | None
    cluster_ratio: float | None
    max_depth: int | None
    patience: int | None
    sampling: str | None
    similarity: dict[str, Any] | None
    reward_range: Sequence[float]
    reward_window_seconds: float
    retention_seconds: float
    context_scale: dict[str, Any]


def _new_id() -> str:
    return new_decision_id(time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectItem:
    """A context that wants an arm; the id is its own, so it stays the same decision."""

    context: float
    decision_id: str = field(default_factory=_new_id)
    eligible: Sequence[str] | None = None
    n: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardItem:
    """The reward of a decision."""

    decision_id: str
    reward: float


# -- decisions


def select(
    tenant: str,
    *,
    context: float,
    decision_id: str | None = None,
    eligible: Sequence[str] | None = None,
    n: int | None = None,
) -> Call[Selection]:
    """The arm to play at a context; of the eligible ones, if told; with `n`, the best n arms."""
    body = {"tenant": tenant, "context": context, "decision_id": decision_id or _new_id()}
    more = {"eligible": None if eligible is None else list(eligible), "n": n}
    body |= {name: value for name, value in more.items() if value is not None}
    return Call(method="POST", path="/select", body=_json(body), read=_as(Selection))


def reward(tenant: str, *, decision_id: str, reward: float) -> Call[RewardAnswer]:
    """The reward of a decision, counted once however often it is sent."""
    body = {"tenant": tenant, "decision_id": decision_id, "reward": reward}
    return Call(method="POST", path="/reward", body=_json(body), read=_as(RewardAnswer))


def select_batch(tenant: str, *, items: Iterable[SelectItem]) -> Call[Selections]:
    """Up to 1,000 selects, and 2,000 arms, in one call; what became of each, in their order."""
    body = {"tenant": tenant, "items": [asdict(item) for item in items]}
    return Call(method="POST", path="/select/batch", body=_json(body), read=_as(Selections))


def reward_batch(tenant: str, *, items: Iterable[RewardItem]) -> Call[Rewards]:
    """Up to 1,000 rewards in one call; what became of each, in their order."""
    body = {"tenant": tenant, "items": [asdict(item) for item in items]}
    return Call(method="POST", path="/reward/batch", body=_json(body), read=_as(Rewards))


def decision(tenant: str, *, decision_id: str) -> Call[Decision]:
    """What was decided and why, and its state."""
    return Call(method="GET", path=_path("decisions", tenant, decision_id), read=_as(Decision))


def censor(tenant: str, *, decision_id: str) -> Call[Censored]:
    """Closes a decision unlearned."""
    path = _path("decisions", tenant, decision_id, "censor")
    return Call(method="POST", path=path, read=_as(Censored))


# -- tenants


def create_tenant(tenant: str, **config: Unpack[TenantConfig]) -> Call[TenantCreated]:
    """Creates a tenant, and shows its key this once; none if it was there already, just so."""
    return Call(
        method="PUT",
        path=_path("tenants", tenant),
        body=_json(config),
        read=_as(TenantCreated),
        once="its key is shown once. If the tenant is there now, delete it and create it again.",
    )


def tenants() -> Call[TenantList]:
    """The names of all tenants."""
    return Call(method="GET", path="/tenants", read=_as(TenantList))


def tenant(tenant: str) -> Call[TenantState]:
    """A tenant's configuration and counters."""
    return Call(method="GET", path=_path("tenants", tenant), read=_as(TenantState))


def update_tenant(tenant: str, **changes: Unpack[TenantChanges]) -> Call[TenantState]:
    """Changes what can be changed of a tenant's configuration."""
    path = _path("tenants", tenant)
    return Call(method="PATCH", path=path, body=_json(changes), read=_as(TenantState))


def delete_tenant(tenant: str) -> Call[None]:
    """Deletes a tenant with all that it learned."""
    return Call(method="DELETE", path=_path("tenants", tenant), read=_nothing)


def partition(tenant: str) -> Call[Partition]:
    """Every ball there is now."""
    return Call(method="GET", path=_path("tenants", tenant, "partition"), read=_as(Partition))


def arms(tenant: str) -> Call[Arms]:
    """A tenant's arms, and which of them are paused."""
    return Call(method="GET", path=_path("tenants", tenant, "arms"), read=_as(Arms))


def add_arm(tenant: str, *, arm: str) -> Call[None]:
    """Adds an arm, to be tried like the others."""
    return Call(method="PUT", path=_path("tenants", tenant, "arms", arm), read=_nothing)


def pause_arm(tenant: str, *, arm: str) -> Call[None]:
    """Has an arm not played until it is resumed; what is known of it stays."""
    return _set_paused(tenant, arm=arm, paused=True)


def resume_arm(tenant: str, *, arm: str) -> Call[None]:
    """Has a paused arm played again."""
    return _set_paused(tenant, arm=arm, paused=False)


def retire_arm(tenant: str, *, arm: str) -> Call[None]:
    """Takes an arm out for good."""
    return Call(method="DELETE", path=_path("tenants", tenant, "arms", arm), read=_nothing)


def new_key(tenant: str, *, expires_in_seconds: float | None = None) -> Call[NewKey]:
    """A further key that opens the tenant, shown this once; without an expiry until revoked."""
    return Call(
        method="POST",
        path=_path("tenants", tenant, "keys"),
        body=_json({"expires_in_seconds": expires_in_seconds}),
        read=_as(NewKey),
        once="the key is shown once. Make another one, and revoke the one that nobody knows.",
    )


def revoke_key(tenant: str, *, key_id: str) -> Call[None]:
    """Has a key open nothing from now on."""
    return Call(method="DELETE", path=_path("tenants", tenant, "keys", key_id), read=_nothing)


# -- streams, and what operators look at


def log(tenant: str, *, after: str | None = None) -> Call[None]:
    """The decision log from its beginning, or after the event of this id, a line an event."""
    query = "" if after is None else "?" + urlencode({"after": after})
    return Call(method="GET", path=_path("tenants", tenant, "log") + query, read=_nothing)


def export_tenant(tenant: str) -> Call[None]:
    """All that a tenant is and has learned, line by line."""
    return Call(method="GET", path=_path("tenants", tenant, "export"), read=_nothing)


def import_tenant(tenant: str) -> Call[TenantState]:
    """A tenant made from the lines of an export, which are sent along."""
    return Call(
        method="POST",
        path=_path("tenants", tenant, "import"),
        read=_as(TenantState),
        once="its lines were read already. If the tenant is not there now, import it again.",
    )


def metrics() -> Call[str]:
    """The page that Prometheus reads."""
    return Call(method="GET", path="/metrics", read=bytes.decode)


def ready() -> Call[None]:
    """Whether the service and its store answer."""
    return Call(method="GET", path="/health/ready", read=_nothing)


def _set_paused(tenant: str, *, arm: str, paused: bool) -> Call[None]:
    path = _path("tenants", tenant, "arms", arm)
    return Call(method="PATCH", path=path, body=_json({"paused": paused}), read=_nothing)


def _path(*parts: str) -> str:
    """The path; refuses parts that would make it the path of something else."""
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} names nothing; give a name that is not empty, '.' or '..'.")
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, allow_nan=False).encode()


def _as(kind: type[Answer]) -> Callable[[bytes], Answer]:
    return partial(read_as, kind)


def read_as(kind: type[Answer], content: bytes) -> Answer:
    """What the JSON says; raises a `ValueError` when it is something else."""
    answer: Answer = _adapter(cast(Hashable, kind)).validate_json(content)
    return answer


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _nothing(_: bytes) -> None:
    """Nothing is said but that it was done."""
