"""What operators look at: probes and metrics."""

import asyncio
from collections.abc import Iterable
from itertools import chain

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.api.context import Context, Here, Key, clock_ms
from service.api.problems import responses
from service.errors import StoreUnavailable
from service.families import Family
from service.state_metrics import store_metrics, tenant_metrics

router = APIRouter(tags=["ops"])


@router.get("/health/live")
async def live() -> dict[str, str]:
    """The process answers."""
    return {"status": "live"}


@router.get("/health/ready", responses=responses(503))
async def ready(here: Here) -> dict[str, str]:
    """The store answers too."""
    await here.store.ping()
    return {"status": "ready"}


@router.get(
    "/metrics",
    response_class=Response,
    responses=responses(401, 403)
    | {200: {"content": {CONTENT_TYPE_LATEST: {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, here: Here, key: Key) -> Response:
    """For Prometheus; also answered, without the tenants, while the store is down."""
    here.require_metrics_key(key)
    state = await _state(here)
    # Off the event loop: many tenants make a long page.
    content, content_type = await asyncio.to_thread(
        here.metrics.page, state, accept=request.headers.get("accept", "")
    )
    return Response(content, headers={"Content-Type": content_type})


async def _state(here: Context) -> Iterable[Family]:
    try:
        server = await here.store.server()
        tenants = await here.store.directory.all_stats(now_ms=clock_ms())
    except StoreUnavailable:
        return store_metrics(None)
    most = here.settings.metrics_tenants
    return chain(store_metrics(server), tenant_metrics(tenants, most=most))
