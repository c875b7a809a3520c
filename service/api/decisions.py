"""`/select` and `/reward`: a context enters here, becomes one step in the store, is answered."""

from datetime import UTC, datetime
from typing import Literal, cast

from fastapi import APIRouter, Request

from service.api.context import Context, Here, Key, clock_ms
from service.api.problems import responses
from service.api.schemas import RewardAnswer, RewardRequest, Selection, SelectRequest
from service.errors import Conflict, Late, UnknownDecision
from service.store import Rewarded, Selected, Tenant, new_decision_id

router = APIRouter(tags=["decisions"])

Phase = Literal["active", "flagged"]


@router.post("/select", responses=responses(401, 403, 404, 409, 413, 422, 503))
async def select(body: SelectRequest, request: Request, here: Here, key: Key) -> Selection:
    """The arm to play at a context. Repeat it safely by sending a `decision_id` of your own."""
    now_ms = clock_ms()
    decision_id = body.decision_id or new_decision_id(now_ms)
    request.state.tenant, request.state.decision_id = body.tenant, decision_id

    async def step(tenant: Tenant) -> tuple[Tenant, Selected | None]:
        return tenant, await here.store.select(
            tenant, decision_id=decision_id, x=body.context, now_ms=now_ms
        )

    tenant, selected = await here.with_tenant(body.tenant, key, step)
    if selected is None:
        raise Conflict(f"The decision '{decision_id}' was made for another context; use a new id.")
    await _split_if_due(here, tenant, selected.due, decision_id)
    expires_ms = selected.at_ms + tenant.window_ms
    return Selection(
        decision_id=decision_id,
        arm=tenant.arm_names[selected.arm],
        ball=selected.ball,
        phase=cast(Phase, selected.phase),
        propensity=1.0,
        expires_at=datetime.fromtimestamp(expires_ms / 1000, UTC),
    )


@router.post("/reward", responses=responses(401, 403, 404, 409, 410, 413, 422, 503))
async def reward(body: RewardRequest, request: Request, here: Here, key: Key) -> RewardAnswer:
    """The reward of a decision, counted once however often it is sent."""
    request.state.tenant, request.state.decision_id = body.tenant, body.decision_id

    async def step(tenant: Tenant) -> tuple[Tenant, Rewarded]:
        return tenant, await here.store.reward(
            tenant, decision_id=body.decision_id, reward=body.reward, now_ms=clock_ms()
        )

    tenant, rewarded = await here.with_tenant(body.tenant, key, step)
    match rewarded.status:
        case "unknown_decision":
            raise UnknownDecision
        case "conflict":
            raise Conflict(
                f"This decision was already rewarded with {rewarded.stands}, which stands."
            )
        case "late":
            window = tenant.settings["reward_window_seconds"]
            raise Late(f"Rewards of this tenant are taken within {window} seconds of the select.")
        case "duplicate":
            return RewardAnswer(status="duplicate")
        case _:
            await _split_if_due(here, tenant, rewarded.due, body.decision_id)
            return RewardAnswer(
                status="applied", ball=rewarded.ball, phase=cast(Phase, rewarded.phase)
            )


async def _split_if_due(here: Context, tenant: Tenant, ball: int | None, decision_id: str) -> None:
    """The request that finds a ball full waits for its split, so its client sees the next state."""
    if ball is not None:
        await here.splitter.split(
            tenant,
            ball=ball,
            wait_seconds=tenant.settings["split_wait_ms"] / 1000,
            decision_id=decision_id,
        )
