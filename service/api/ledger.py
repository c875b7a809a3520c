"""Decisions after their select: look at one, censor one, and the log of all."""

import json
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse

from service.api.context import Context, Here, Key, clock_ms
from service.api.decision_schemas import (
    Censored,
    DecisionBall,
    DecisionState,
    RunnerUp,
    Why,
)
from service.api.problems import responses
from service.api.schemas import TenantName
from service.api.tenants import shown_ball
from service.errors import Conflict, Late, UnknownDecision, UnknownTenant
from service.store import DecisionRecord, PartitionBall, Tenant

router = APIRouter(tags=["decisions"])

Name = Annotated[TenantName, Path(description="The tenant's name")]
DecisionId = Annotated[str, Path(max_length=1024, description="The decision's id")]
After = Annotated[
    str,
    Query(
        pattern=r"^([0-9]{1,18}-[0-9]{1,18})?$",
        description="The `id` of the last line read; the log from its beginning if left out",
    ),
]
LogPage = list[tuple[str, dict[str, str]]]
_READ_AT_ONCE = 500
_PHASES = {"1": "active", "2": "flagged"}


@router.get("/decisions/{tenant}/{decision_id}", responses=responses(401, 403, 404, 422, 503))
async def read_decision(
    tenant: Name, decision_id: DecisionId, request: Request, here: Here, key: Key
) -> DecisionState:
    """What was decided and why, and what has become of it."""
    request.state.tenant, request.state.decision_id = tenant, decision_id

    async def step(found: Tenant) -> DecisionState:
        read = await here.store.decisions.read(found, decision_id, now_ms=clock_ms())
        if read is None:
            raise UnknownDecision
        return _shown(found, decision_id, *read)

    return await here.with_current_tenant(tenant, key, step)


@router.post(
    "/decisions/{tenant}/{decision_id}/censor",
    responses=responses(401, 403, 404, 409, 410, 422, 503),
)
async def censor_decision(
    tenant: Name, decision_id: DecisionId, request: Request, here: Here, key: Key
) -> Censored:
    """Closes an open decision so that nothing is ever learned from it. Repeat it safely."""
    request.state.tenant, request.state.decision_id = tenant, decision_id

    async def step(found: Tenant) -> str:
        return await here.store.censor(found, decision_id=decision_id, now_ms=clock_ms())

    match await here.with_tenant(tenant, key, step):
        case "unknown_decision":
            raise UnknownDecision
        case "conflict":
            raise Conflict("This decision was already credited with a reward, which stands.")
        case "late":
            raise Late("This decision's window is over; nothing was learned from it.")
    return Censored()


@router.get(
    "/tenants/{tenant}/log",
    tags=["tenants"],
    response_class=StreamingResponse,
    responses=responses(401, 403, 404, 422, 503)
    | {200: {"content": {"application/x-ndjson": {}}, "description": "One event a line"}},
)
async def read_log(
    tenant: Name, request: Request, here: Here, key: Key, after: After = ""
) -> StreamingResponse:
    """The decision log, a line an event: selects, what became of decisions, changes of arms.

    It goes as far back as the tenant's `log_entries` reach. To go on later, send the last line's
    `id` as `after`.
    """
    request.state.tenant = tenant
    found = await here.current_tenant(tenant, key)
    first = await _log_page(here, found, after=after)
    return StreamingResponse(_log_lines(here, *first), media_type="application/x-ndjson")


async def _log_lines(here: Context, tenant: Tenant, entries: LogPage) -> AsyncIterator[str]:
    while entries:
        yield "".join(json.dumps(_event(tenant, *entry)) + "\n" for entry in entries)
        last, _ = entries[-1]
        if len(entries) < _READ_AT_ONCE:
            return
        tenant, entries = await _log_page(here, tenant, after=last)


async def _log_page(here: Context, tenant: Tenant, *, after: str) -> tuple[Tenant, LogPage]:
    """Some entries, and the tenant with all arms that they name: some may have been added since."""
    entries = await here.store.decisions.log(tenant, after=after, count=_READ_AT_ONCE)
    if any(int(fields["arm"]) >= len(tenant.arm_names) for _, fields in entries):
        incarnation = tenant.incarnation
        tenant = await here.store.directory.current(tenant.name)
        if tenant.incarnation != incarnation:
            raise UnknownTenant(tenant.name)
    return tenant, entries


def _event(tenant: Tenant, entry: str, fields: dict[str, str]) -> dict[str, Any]:
    line: dict[str, Any] = {
        "id": entry,
        "event": fields["event"],
        "at": _time(int(float(fields["at"]))).isoformat(),
        "arm": tenant.arm_names[int(fields["arm"])],
    }
    if "propensity" not in fields:
        return line
    return line | {
        "decision_id": fields["id"],
        "context": float(fields["raw"]),
        "mapped_context": float(fields["x"]),
        "ball": int(fields["ball"]),
        "phase": _PHASES[fields["phase"]],
        "propensity": float(fields["propensity"]),
        "holdout": fields["holdout"] == "1",
        "reward": float(fields["reward"]) if fields["reward"] else None,
    }


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _shown(
    tenant: Tenant, decision_id: str, record: DecisionRecord, ball: PartitionBall | None
) -> DecisionState:
    shown = None
    if ball is not None:
        shown = DecisionBall(**shown_ball(tenant, ball))
    return DecisionState(
        tenant=tenant.name,
        decision_id=decision_id,
        state=record.state,  # type: ignore[arg-type]  # one of them
        context=record.context,
        mapped_context=record.x,
        arm=tenant.arm_names[record.arm],
        phase=record.phase,  # type: ignore[arg-type]  # one of them
        propensity=record.propensity,
        holdout=record.holdout,
        issued_at=_time(record.at_ms),
        expires_at=_time(record.at_ms + tenant.window_ms),
        closed_at=None if record.closed_at_ms is None else _time(record.closed_at_ms),
        reward=record.reward,
        ball_id=record.ball,
        ball=shown,
        why=_why(tenant, record),
    )


def _why(tenant: Tenant, record: DecisionRecord) -> Why:
    rule = "flagged" if record.phase == "flagged" else "ucb"
    if record.holdout or record.explored:
        rule = "holdout" if record.holdout else "explored"
    runner_up = None
    if not math.isnan(record.runner_up_ucb):
        ucb = _on_scale(tenant, record.runner_up_ucb)
        if tenant.settings["preset"] == "adaptive":
            runner_up = RunnerUp(arm=tenant.arm_names[record.runner_up], ucb=ucb)
        else:
            runner_up = RunnerUp(ball=record.runner_up, ucb=ucb)
    return Why(
        rule=rule,  # type: ignore[arg-type]  # one of them
        ucb=_on_scale(tenant, record.ucb),
        runner_up=runner_up,
    )


def _on_scale(tenant: Tenant, ucb: float) -> float | None:
    return tenant.reward_scale.from_unit(ucb) if math.isfinite(ucb) else None
