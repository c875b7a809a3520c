"""Export and import: a whole tenant as one file, to move it or to keep it. All for the admin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.api.context import Context, Here, Key, clock_ms
from service.api.problems import responses
from service.api.schemas import TenantState
from service.api.stored_settings import check_settings
from service.api.tenants import Name, tenant_state
from service.errors import BadExport, Exists, UnknownTenant, ZoomingError
from service.store import Export, lines_of

router = APIRouter(prefix="/tenants", tags=["transfers"])

NDJSON = "application/x-ndjson"
_FILE = {NDJSON: {"schema": {"type": "string"}}}
_PATIENCE_SECONDS = 60


class Lines(StreamingResponse):
    """Lines that are closed when the client goes away, not when they are collected as garbage."""

    media_type = NDJSON

    def __init__(self, lines: Export, *, headers: dict[str, str]) -> None:
        super().__init__(lines, headers=headers)
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the lines."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._lines.aclose()


@router.get(
    "/{tenant}/export",
    response_class=Response,
    responses=responses(401, 403, 404, 422, 503) | {200: {"content": _FILE}},
)
async def export_tenant(tenant: Name, request: Request, here: Here, key: Key) -> Response:
    """Everything there is of the tenant, as NDJSON, with the hashes of its keys.

    While it is read, nothing of the tenant changes: selects and rewards get 503, to be sent again.
    Take the lines as fast as they come. The last line says that the file is whole; if it says
    `error` instead, or is missing, export once more.
    """
    here.require_admin(key)
    request.state.tenant = tenant
    found = await here.current_tenant(tenant, key)
    lines = await here.store.export(found, clock_ms=clock_ms)
    headers = {"Content-Disposition": f'attachment; filename="{tenant}.ndjson"'}
    return Lines(lines, headers=headers)


@router.post(
    "/{tenant}/import",
    status_code=201,
    responses=responses(401, 403, 409, 422, 503),
    openapi_extra={"requestBody": {"required": True, "content": _FILE}},
)
async def import_tenant(tenant: Name, request: Request, here: Here, key: Key) -> TenantState:
    """A new tenant from an export, which goes on as if nothing had happened; its keys open it.

    The name may be another than that of the tenant that was exported, and must be free. A file that
    is not whole, or that another version of the format or of the store wrote, is refused, and
    nothing is left of it. After a 503, a 409 may mean that the import had come to its end.
    """
    here.require_admin(key)
    request.state.tenant = tenant
    chunks = _in_time(request.stream())
    try:
        await _require_free(here, tenant)
        made = await here.store.import_tenant(
            tenant, lines=lines_of(chunks), check_settings=check_settings
        )
    except ZoomingError:
        # Whoever is still sending would not see the answer.
        with suppress(BadExport):
            async for _ in chunks:
                pass
        raise
    return await tenant_state(here, made, with_keys=True)


async def _require_free(here: Context, tenant: str) -> None:
    with suppress(UnknownTenant):
        await here.store.directory.current(tenant)
        raise Exists(tenant)


async def _in_time(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks, as long as they keep coming."""
    try:
        while True:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk
    except TimeoutError:
        raise BadExport(f"Nothing of the file came for {_PATIENCE_SECONDS} seconds.") from None
    except ClientDisconnect:
        raise BadExport("The file ends too early: the connection was lost.") from None
