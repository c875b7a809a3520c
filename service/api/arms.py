"""The catalogue of a tenant while it runs: look, add, pause, resume, retire."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.convertors import PathConvertor, register_url_convertor

from service.api.context import Context, Here, Key, clock_ms
from service.api.problems import responses
from service.api.schemas import MOST_ARMS, Arm, ArmChange, ArmList, ArmName, TenantName
from service.errors import Conflict, UnknownArm
from service.store import LIVE, PAUSED, RETIRED, Tenant


class _Rest(PathConvertor):
    """All that follows; `path` would drop a newline at the end, and name another arm."""

    regex = "(?s:.*)"


register_url_convertor("rest", _Rest())
router = APIRouter(prefix="/tenants/{tenant}/arms", tags=["arms"])

Name = Annotated[TenantName, Path(description="The tenant's name")]
ArmPath = Annotated[ArmName, Path(description="The arm's name")]


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def list_arms(tenant: Name, request: Request, here: Here, key: Key) -> ArmList:
    """The arms there are, in the order of the catalogue; retired ones are gone."""
    request.state.tenant = tenant
    found = await here.current_tenant(tenant, key)
    return ArmList(tenant=tenant, arms=[_shown(found, arm) for arm in found.arms.values()])


@router.put(
    "/{arm:rest}",
    status_code=201,
    responses=responses(401, 403, 404, 409, 422, 503) | {200: {"model": Arm}},
)
async def add_arm(
    tenant: Name, arm: ArmPath, request: Request, response: Response, here: Here, key: Key
) -> Arm:
    """Adds an arm, last in the catalogue. One that is there already is left as it is (200)."""
    here.require_admin(key)
    request.state.tenant = tenant

    async def step(found: Tenant) -> bool:
        if arm in found.arms:
            return False
        if len(found.arm_names) >= MOST_ARMS:
            raise Conflict(
                f"A tenant has {MOST_ARMS} arms at the most in its life, retired ones among them; "
                "make a new tenant."
            )
        # Nobody can ask for it any more once the name is another arm's.
        await _finish_retirement(here, found, key, arm)
        await here.store.arms.add(found, arm, now_ms=clock_ms())
        return True

    if not await here.with_current_tenant(tenant, key, step):
        response.status_code = 200
    current = await here.current_tenant(tenant, key)
    return _shown(current, _number(current, arm))


@router.patch("/{arm:rest}", responses=responses(401, 403, 404, 413, 422, 503))
async def change_arm(
    tenant: Name, arm: ArmPath, change: ArmChange, request: Request, here: Here, key: Key
) -> Arm:
    """Pauses an arm, or resumes it. A paused arm is not played; what is known of it stays."""
    here.require_admin(key)
    request.state.tenant = tenant
    return await _change(here, tenant, arm, key, state=PAUSED if change.paused else LIVE)


@router.delete("/{arm:rest}", status_code=204, responses=responses(401, 403, 404, 422, 503))
async def retire_arm(tenant: Name, arm: ArmPath, request: Request, here: Here, key: Key) -> None:
    """Retires an arm for ever: it leaves its balls, and rewards that are still to come for it are
    ignored. An arm of this name may be added again; it starts anew, and a repeat of this call after
    that retires it as well.
    """
    here.require_admin(key)
    request.state.tenant = tenant
    try:
        await _change(here, tenant, arm, key, state=RETIRED)
    except UnknownArm:
        await _finish_retirement(here, await here.current_tenant(tenant, key), key, arm)
        raise


async def _finish_retirement(here: Context, tenant: Tenant, key: str | None, arm: str) -> None:
    """Settles the last retired arm of this name: its retirement may have been cut short."""
    retired = [number for number, name in enumerate(tenant.arm_names) if name == arm]
    for number in retired[-1:]:
        await _settle(here, tenant.name, key, number)


async def _change(here: Context, tenant: str, arm: str, key: str | None, *, state: int) -> Arm:
    """The change, and what follows from it."""

    async def step(found: Tenant) -> int:
        number = _number(found, arm)
        if found.arm_states[number] != state:
            await here.store.arms.change(found, number, state=state, now_ms=clock_ms())
        return number

    number = await here.with_current_tenant(tenant, key, step)
    return _shown(await _settle(here, tenant, key, number), number)


async def _settle(here: Context, tenant: str, key: str | None, arm: int) -> Tenant:
    """Brings the balls that hold the arm up to date; the tenant as it was then."""

    async def step(found: Tenant) -> tuple[Tenant, list[int]]:
        return found, await here.store.arms.settle(found, arm, now_ms=clock_ms())

    current, due = await here.with_tenant(tenant, key, step)
    for ball in due:
        wait_seconds = current.settings["split_wait_ms"] / 1000
        await here.splitter.split(current, ball=ball, wait_seconds=wait_seconds)
    return current


def _number(tenant: Tenant, arm: str) -> int:
    if arm not in tenant.arms:
        raise UnknownArm(tenant.name, arm)
    return tenant.arms[arm]


def _shown(tenant: Tenant, arm: int) -> Arm:
    state = tenant.arm_states[arm]
    return Arm(arm=tenant.arm_names[arm], state="paused" if state == PAUSED else "live")
