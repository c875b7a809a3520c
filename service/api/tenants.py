"""Tenants: create, list, read, change, delete, and look at the partition."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from service import store
from service.api.change_schemas import TenantChanges
from service.api.context import Context, Here, Key, clock_ms, hash_key, moment, new_key
from service.api.problems import responses
from service.api.schemas import (
    Ball,
    KeyState,
    Partition,
    Rewards,
    TenantConfig,
    TenantCreated,
    TenantList,
    TenantName,
    TenantState,
    Uplift,
)
from service.errors import Conflict, UnknownTenant
from service.store import PartitionBall, Tenant, TenantStats, live_keys

router = APIRouter(prefix="/tenants", tags=["tenants"])

Name = Annotated[TenantName, Path(description="The tenant's name")]


@router.put(
    "/{tenant}",
    status_code=201,
    response_model_exclude_none=True,
    responses=responses(401, 403, 409, 413, 422, 503) | {200: {"model": TenantCreated}},
)
async def create_tenant(
    tenant: Name, config: TenantConfig, request: Request, response: Response, here: Here, key: Key
) -> TenantCreated:
    """Creates the tenant, and shows its key this once. The same body again changes nothing.

    Should the answer be lost on its way, the repeat is a 200 without the key: delete the tenant, in
    which nothing was learned yet, and create it again.
    """
    here.require_admin(key)
    request.state.tenant = tenant
    api_key = new_key()
    # Off the event loop: a configuration may hold a matrix of megabytes.
    digest, settings = await asyncio.to_thread(lambda: (config.digest(), config.settings()))
    made, created = await here.store.directory.create(
        tenant,
        body_digest=digest,
        settings=settings,
        key_hash=hash_key(api_key),
        now_ms=clock_ms(),
    )
    if not created and made.body_digest != digest:
        raise Conflict(
            f"The tenant '{tenant}' exists with another configuration; delete it first, or use "
            "another name."
        )
    await here.splitter.split_new_root(made)
    if not created:
        response.status_code = 200
    return TenantCreated(
        tenant=tenant,
        key_id=made.keys[0].id if created else None,
        api_key=api_key if created else None,
        config=dict(made.settings),
    )


@router.get("", responses=responses(401, 403, 503))
async def list_tenants(here: Here, key: Key) -> TenantList:
    """The names of all tenants."""
    here.require_admin(key)
    return TenantList(tenants=await here.store.directory.names())


@router.get("/{tenant}", responses=responses(401, 403, 404, 422, 503))
async def read_tenant(tenant: Name, request: Request, here: Here, key: Key) -> TenantState:
    """The tenant's configuration and counters."""
    request.state.tenant = tenant
    found = await here.current_tenant(tenant, key)
    return await tenant_state(here, found, with_keys=here.is_admin(key))


@router.patch("/{tenant}", responses=responses(401, 403, 404, 413, 422, 503))
async def change_tenant(
    tenant: Name, changes: TenantChanges, request: Request, here: Here, key: Key
) -> TenantState:
    """Changes settings, from the next call on, at every worker; nothing that was learned is lost.

    A setting that is structural is refused: it takes a new tenant. What was sent at the creation
    stays known: the same PUT again still gets 200.
    """
    here.require_admin(key)
    request.state.tenant = tenant

    async def step(found: Tenant) -> Tenant:
        settings = changes.sent()
        return await here.store.directory.revise(found, settings=settings, now_ms=clock_ms())

    return await tenant_state(here, await here.with_tenant(tenant, key, step), with_keys=True)


@router.delete("/{tenant}", status_code=204, responses=responses(401, 403, 404, 422, 503))
async def delete_tenant(tenant: Name, request: Request, here: Here, key: Key) -> None:
    """Deletes the tenant with all that it learned; there is no way back."""
    here.require_admin(key)
    request.state.tenant = tenant
    directory = here.store.directory
    try:
        incarnation = await directory.incarnation(tenant)
    except UnknownTenant:
        # Perhaps by a deletion that did not come to its end.
        await directory.finish_deletions(of=tenant)
        raise
    await directory.delete(tenant, incarnation=incarnation)


@router.get(
    "/{tenant}/partition",
    response_model=Partition,
    responses=responses(401, 403, 404, 422, 503),
)
async def read_partition(tenant: Name, request: Request, here: Here, key: Key) -> Response:
    """Every ball there is now."""
    request.state.tenant = tenant
    found = await here.current_tenant(tenant, key)
    balls = await here.store.partition(found)
    # Off the event loop: with many thousands of balls this takes a second.
    content = await asyncio.to_thread(_partition_json, found, balls)
    return Response(content, media_type="application/json")


async def tenant_state(here: Context, tenant: Tenant, *, with_keys: bool) -> TenantState:
    """What is shown of the tenant."""
    now_ms = clock_ms()
    stats = await here.store.directory.stats(tenant, now_ms=now_ms)
    return TenantState(
        tenant=tenant.name,
        created_at=moment(tenant.created_at_ms),
        keys=_shown_keys(tenant, now_ms=now_ms) if with_keys else None,
        config=dict(tenant.settings),
        counters=_counters(stats),
        uplift=_uplift(stats.uplift) if stats.uplift else None,
    )


def _shown_keys(tenant: Tenant, *, now_ms: int) -> list[KeyState]:
    return [
        KeyState(
            key_id=key.id,
            created_at=moment(key.created_at_ms),
            expires_at=None if key.expires_at_ms is None else moment(key.expires_at_ms),
        )
        for key in live_keys(tenant.keys, now_ms=now_ms)
    ]


def _counters(stats: TenantStats) -> dict[str, int | float]:
    return {
        **stats.counters,
        **{f"clusters_{depth}": count for depth, count in stats.clusters.items()},
        **{f"decisions_{state}": count for state, count in stats.decisions.items()},
        "reward_sum": stats.reward_sum,
        "regret_upper": stats.regret_upper,
        "regret_estimate": stats.regret_estimate,
    }


def _uplift(uplift: store.Uplift) -> Uplift:
    low, high = uplift.interval
    return Uplift(
        learned=Rewards(rewards=uplift.learned.rewards, mean=uplift.learned.mean),
        holdout=Rewards(rewards=uplift.holdout.rewards, mean=uplift.holdout.mean),
        difference=uplift.difference,
        low=low,
        high=high,
    )


def _partition_json(tenant: Tenant, balls: list[PartitionBall]) -> str:
    rows = [Ball(**shown_ball(tenant, ball)) for ball in balls]
    return Partition(tenant=tenant.name, balls=rows).model_dump_json()


def shown_ball(tenant: Tenant, ball: PartitionBall) -> dict[str, Any]:
    """A ball with the arms' names, on the tenant's own scale of rewards."""
    interval, scale = ball.interval, tenant.reward_scale
    return {
        "id": ball.id,
        "interval": (interval.start, interval.end),
        "depth": interval.depth,
        "index": interval.index,
        "phase": ball.phase,
        "arms": [tenant.arm_names[arm] for arm in ball.arms],
        "n": ball.n,
        "mean": None if ball.mean is None else scale.from_unit(ball.mean),
        "ucb": None if ball.ucb is None else scale.from_unit(ball.ucb),
        "fill": ball.fill,
    }
