"""The app: settings in, FastAPI out. Two apps may stand on one store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from service import logs
from service.api import decisions, ops, problems, tenants
from service.api.context import Context, clock_ms
from service.limits import BodyLimit
from service.settings import Settings
from service.splitter import Splitter
from service.store import Store

DESCRIPTION = """
Recommends an arm for a context and learns from rewards that come later, without being told how the
arms relate. Create a tenant, `POST /select`, play the arm, `POST /reward`.

Errors are `application/problem+json`; `detail` says what to do. With an admin key set, send
`Authorization: Bearer KEY`. After a 503 every call may be sent again as it is.
"""


def create_app(settings: Settings | None = None) -> FastAPI:
    """An app on the store that the settings name."""
    settings = settings or Settings.load()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        logs.set_up()
        store = Store(settings.redis_url)
        splitter = Splitter(store, clock_ms=clock_ms)
        app.state.context = Context(settings, store, splitter)
        try:
            await store.verify()
            await store.directory.finish_deletions()
            yield
        finally:
            await splitter.close()
            await store.close()

    app = FastAPI(
        title="Approx-Zooming",
        version="0.1.0",
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
    )
    problems.install(app)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    for router in (decisions.router, tenants.router, ops.router):
        app.include_router(router)
    return app
