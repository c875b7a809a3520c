"""A tenant to measure, on the store itself."""

from collections.abc import Mapping
from typing import Any

from service.api.schemas import TenantConfig
from service.splitter import Splitter
from service.store import Store, Tenant


async def new_tenant(store: Store, name: str, config: Mapping[str, Any], *, now_ms: int) -> Tenant:
    """Created, and its root split where that needs no samples."""
    settings = TenantConfig.model_validate(config).settings()
    tenant, _ = await store.directory.create(
        name, body_digest="", settings=settings, key_hash="", now_ms=now_ms
    )
    await Splitter(store, clock_ms=lambda: now_ms).split_new_root(tenant)
    return tenant
