"""Probes."""

from fastapi import APIRouter

from service.api.context import Here
from service.api.problems import responses

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
