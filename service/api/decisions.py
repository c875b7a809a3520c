"""`/select` and `/reward`: a context enters here, becomes one step in the store, is answered."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, cast

from fastapi import APIRouter, Request

from service import store
from service.api.context import Context, Here, Key, clock_ms
from service.api.decision_schemas import (
    Choice,
    NotChosen,
    NotRewarded,
    NotSelected,
    Phase,
    Refused,
    RewardAnswer,
    RewardBatch,
    Rewarded,
    RewardRequest,
    Rewards,
    SelectBatch,
    Selected,
    Selection,
    Selections,
    SelectRequest,
)
from service.api.problems import problem_of, responses
from service.api.short_way import ShortWay
from service.api.wanted import Asked, all_asked
from service.errors import Conflict, Invalid, Late, Refusal, UnknownDecision
from service.store import Tenant, Wanted, new_attempt, new_decision_id

router = APIRouter(tags=["decisions"], route_class=ShortWay)


@router.post(
    "/select",
    response_model_exclude_none=True,
    responses=responses(401, 403, 404, 409, 413, 422, 503),
)
async def select(body: SelectRequest, request: Request, here: Here, key: Key) -> Selection:
    """The arm to play at a context. Repeat it safely by sending a `decision_id` of your own."""
    now_ms = clock_ms()
    decision_id = body.decision_id or new_decision_id(now_ms)
    request.state.tenant, request.state.decision_id = body.tenant, decision_id

    async def step(tenant: Tenant) -> tuple[Tenant, Asked, store.Selected]:
        (asked,) = await all_asked(here, tenant, [decision_id], [body], now_ms=now_ms)
        return tenant, asked, await here.store.select(tenant, asked.wanted, now_ms=now_ms)

    tenant, asked, selected = await here.with_tenant(body.tenant, key, step)
    if refusal := _not_chosen(asked, selected):
        raise refusal
    await _split_if_due(here, tenant, selected.due, decision_id)
    return _selection(tenant, asked.wanted, selected)


@router.post(
    "/select/batch",
    response_model_exclude_none=True,
    responses=responses(401, 403, 404, 413, 422, 503),
)
async def select_batch(body: SelectBatch, request: Request, here: Here, key: Key) -> Selections:
    """Up to 1,000 contexts in one call, each with its own status, in the order given.

    All together may want 2,000 arms (the sum of their `n`). An item that does not fit the tenant is
    `invalid`, and the others are taken; one that is not of this form, and none is. Repeat it safely
    by sending ids of your own.
    """
    now_ms = clock_ms()
    request.state.tenant = body.tenant
    ids = [item.decision_id or new_decision_id(now_ms) for item in body.items]

    async def step(tenant: Tenant) -> tuple[Tenant, list[Asked], list[store.Selected]]:
        asked = await all_asked(here, tenant, ids, body.items, now_ms=now_ms)
        calls = [(tenant, one.wanted) for one in asked]
        return tenant, asked, await here.store.select_all(calls, now_ms=now_ms)

    tenant, asked, found = await here.with_tenant(body.tenant, key, step)
    await _split_all(here, tenant, [one.due for one in found], ids)
    items: list[Selected | NotSelected] = []
    for decision_id, one, selected in zip(ids, asked, found, strict=True):
        if refusal := _not_chosen(one, selected):
            is_misfit = isinstance(refusal, Invalid)
            status = "invalid" if is_misfit else cast(NotChosen, selected.status)
            problem = problem_of(refusal)
            items.append(NotSelected(decision_id=decision_id, status=status, problem=problem))
        else:
            items.append(Selected(**_selection(tenant, one.wanted, selected).model_dump()))
    return Selections(items=items)


@router.post("/reward", responses=responses(401, 403, 404, 409, 410, 413, 422, 503))
async def reward(body: RewardRequest, request: Request, here: Here, key: Key) -> RewardAnswer:
    """The reward of a decision, counted once however often it is sent."""
    request.state.tenant, request.state.decision_id = body.tenant, body.decision_id

    async def step(tenant: Tenant) -> tuple[Tenant, store.Rewarded]:
        return tenant, await here.store.reward(
            tenant, decision_id=body.decision_id, reward=body.reward, now_ms=clock_ms()
        )

    tenant, rewarded = await here.with_tenant(body.tenant, key, step)
    if refusal := _refusal(tenant, rewarded):
        raise refusal
    await _split_if_due(here, tenant, rewarded.due, body.decision_id)
    return _answer(rewarded)


@router.post("/reward/batch", responses=responses(401, 403, 404, 413, 422, 503))
async def reward_batch(body: RewardBatch, request: Request, here: Here, key: Key) -> Rewards:
    """Up to 1,000 rewards in one call, each with its own status, in the order given.

    One item that is not of this form, and none is taken. Repeat it safely: a reward counts once.
    """
    request.state.tenant = body.tenant
    ids = [item.decision_id for item in body.items]
    attempt = new_attempt()

    async def step(tenant: Tenant) -> tuple[Tenant, list[store.Rewarded]]:
        given = [(tenant, item.decision_id, item.reward) for item in body.items]
        return tenant, await here.store.reward_all(given, now_ms=clock_ms(), attempt=attempt)

    tenant, found = await here.with_tenant(body.tenant, key, step)
    await _split_all(here, tenant, [rewarded.due for rewarded in found], ids)
    items: list[Rewarded | NotRewarded] = []
    for decision_id, rewarded in zip(ids, found, strict=True):
        if refusal := _refusal(tenant, rewarded):
            status, problem = cast(Refused, rewarded.status), problem_of(refusal)
            items.append(NotRewarded(decision_id=decision_id, status=status, problem=problem))
        else:
            items.append(Rewarded(decision_id=decision_id, **_answer(rewarded).model_dump()))
    return Rewards(items=items)


def _selection(tenant: Tenant, wanted: Wanted, selected: store.Selected) -> Selection:
    expires_at = datetime.fromtimestamp((selected.at_ms + tenant.window_ms) / 1000, UTC)

    def told(choice: store.Choice) -> dict[str, Any]:
        return {
            "decision_id": choice.decision_id,
            "arm": tenant.arm_names[choice.arm],
            "ball": choice.ball,
            "phase": choice.phase,
            "propensity": choice.propensity,
            "context": selected.x if wanted.raw is None else wanted.raw,
            "mapped_context": selected.x,
            "expires_at": expires_at,
        }

    first, *_ = choices = selected.choices
    ranking = [Choice(**told(choice)) for choice in choices] if wanted.n > 1 else None
    return Selection(**told(first), ranking=ranking)


def _not_chosen(asked: Asked, selected: store.Selected) -> Conflict | Invalid | None:
    if misfit := asked.refusal(selected):
        return misfit
    match selected.status:
        case "conflict":
            return Conflict(
                f"The decision '{asked.wanted.decision_id}' was made for another context; use a "
                "new id."
            )
        case "none_eligible":
            return Conflict(
                "None of the arms may be played: each is paused, or not among those eligible. "
                "Name others, or resume some."
            )
        case _:
            return None


def _answer(rewarded: store.Rewarded) -> RewardAnswer:
    if rewarded.status in ("duplicate", "ignored"):
        return RewardAnswer(status=cast(Literal["duplicate", "ignored"], rewarded.status))
    return RewardAnswer(status="applied", ball=rewarded.ball, phase=cast(Phase, rewarded.phase))


def _refusal(tenant: Tenant, rewarded: store.Rewarded) -> Refusal | None:
    match rewarded.status:
        case "unknown_decision":
            return UnknownDecision()
        case "conflict":
            return Conflict(
                f"This decision was already rewarded with {rewarded.stands}, which stands."
            )
        case "censored":
            return Conflict("This decision was censored: nothing is learned from it any more.")
        case "late":
            window = tenant.settings["reward_window_seconds"]
            return Late(f"Rewards of this tenant are taken within {window} seconds of the select.")
        case _:
            return None


async def _split_all(
    here: Context, tenant: Tenant, due: Sequence[int | None], ids: Sequence[str]
) -> None:
    """Each ball that was found full, once, for the first item that found it so."""
    for ball in dict.fromkeys(ball for ball in due if ball is not None):
        await _split_if_due(here, tenant, ball, ids[due.index(ball)])


async def _split_if_due(here: Context, tenant: Tenant, ball: int | None, decision_id: str) -> None:
    """The request that finds a ball full waits for its split, so its client sees the next state."""
    if ball is not None:
        await here.splitter.split(
            tenant,
            ball=ball,
            wait_seconds=tenant.settings["split_wait_ms"] / 1000,
            decision_id=decision_id,
        )
