"""The keys of a tenant: make another, revoke one. All of it is for the admin."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from service.api.change_schemas import KeyCreated, KeyId, KeyRequest
from service.api.context import Here, Key, clock_ms, hash_key, moment, new_key
from service.api.problems import responses
from service.api.tenants import Name
from service.errors import Conflict, UnknownKey
from service.store import MOST_LIVE_KEYS, Tenant, TenantKey, live_keys

router = APIRouter(prefix="/tenants", tags=["keys"])


@router.post(
    "/{tenant}/keys", status_code=201, responses=responses(401, 403, 404, 409, 413, 422, 503)
)
async def create_key(
    tenant: Name, request: Request, here: Here, key: Key, wanted: KeyRequest | None = None
) -> KeyCreated:
    """Another key for the tenant, shown this once; the one it has goes on working.

    At most two keys are live at a time, so that one can be changed for another without a pause:
    make one, hand it out, revoke the old. Should the answer be lost on its way, revoke the key that
    nobody knows and make another.
    """
    here.require_admin(key)
    request.state.tenant = tenant
    now_ms = clock_ms()
    seconds = wanted.expires_in_seconds if wanted else None
    api_key = new_key()
    expires_at_ms = None if seconds is None else now_ms + round(1000 * seconds)
    made = TenantKey.make(hash_key(api_key), now_ms=now_ms, expires_at_ms=expires_at_ms)

    async def step(found: Tenant) -> None:
        live = live_keys(found.keys, now_ms=now_ms)
        if made in live:
            return  # by a try whose answer did not come back
        if len(live) >= MOST_LIVE_KEYS:
            ids = " and ".join(one.id for one in live)
            raise Conflict(
                f"The tenant '{tenant}' has two live keys already, {ids}; revoke one with DELETE "
                f"/tenants/{tenant}/keys/KEY_ID first."
            )
        await here.store.directory.revise(found, keys=[*live, made], now_ms=now_ms)

    await here.with_current_tenant(tenant, key, step)
    return KeyCreated(
        key_id=made.id,
        api_key=api_key,
        expires_at=None if expires_at_ms is None else moment(expires_at_ms),
    )


@router.delete(
    "/{tenant}/keys/{key_id}", status_code=204, responses=responses(401, 403, 404, 422, 503)
)
async def revoke_key(
    tenant: Name,
    key_id: Annotated[KeyId, Path(description="As GET /tenants/{tenant} shows it")],
    request: Request,
    here: Here,
    key: Key,
) -> None:
    """Revokes the key: from the next call on it opens nothing, at any worker.

    The last key too may be revoked; the tenant then opens for the admin alone.
    """
    here.require_admin(key)
    request.state.tenant = tenant

    async def step(found: Tenant) -> None:
        others = [one for one in found.keys if one.id != key_id]
        if len(others) == len(found.keys):
            raise UnknownKey(tenant)
        await here.store.directory.revise(found, keys=others, now_ms=clock_ms())

    await here.with_current_tenant(tenant, key, step)
