"""The app: settings in, FastAPI out. Two apps may stand on one store."""

import importlib.metadata
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from service import logs
from service.api import arms, decisions, keys, ledger, ops, problems, tenants, transfers
from service.api.context import KEY_IN_DOCS, Context, clock_ms
from service.api.limits import BodyLimit
from service.api.watch import Watch
from service.background import Background
from service.closer import Closer
from service.errors import StoreUnavailable
from service.metrics import ProcessMetrics
from service.processes import end_with_parent
from service.settings import Settings
from service.splitter import Splitter
from service.store import Store

VERSION = importlib.metadata.version("approx-zooming")

log = logging.getLogger("zooming")

FINISH_SECONDS = 600.0  # between two looks for what was cut short

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
        end_with_parent()
        metrics = ProcessMetrics(version=VERSION)
        store = Store(settings.redis_url, observer=metrics)
        splitter = Splitter(store, clock_ms=clock_ms, observe_seconds=metrics.split_took)
        closer = Closer(store, splitter, clock_ms=clock_ms)
        background: list[Closer | Background] = [closer, *_finishers(store)]
        app.state.context = Context(settings, store, splitter, metrics)
        try:
            await _verify(store)
            for work in background:
                work.start()
            yield
        finally:
            for work in background:
                await work.stop()
            await splitter.close()
            await store.close()

    app = FastAPI(
        title="Approx-Zooming",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, admin_key=settings.admin_key)
    app.add_middleware(Watch)
    for part in (decisions, ledger, tenants, arms, keys, transfers):
        app.include_router(part.router, dependencies=[Depends(KEY_IN_DOCS)])
    app.include_router(ops.router)
    return app


def _finishers(store: Store) -> list[Background]:
    """They give back what deletions and imports left that were cut short, now and then.

    Every worker does it; what two do at the same time does no harm.
    """
    return [
        Background(work, pause_seconds=FINISH_SECONDS, failure="not tidied up")
        for work in (store.directory.finish_deletions, store.finish_imports)
    ]


async def _verify(store: Store) -> None:
    """A store that is down now is no reason not to start: it may be back at the first request.

    The workers' supervisor gives up on the whole service when one fails to start, and a worker may
    be replaced while the store is being restarted.
    """
    try:
        await store.verify()
    except StoreUnavailable as error:
        log.error("started without the store", extra={"error": str(error)})
