"""`zooming serve`: a store, checked, and workers on it.

The private store belongs to this process, not to a worker, so workers come and go without it.
"""

import asyncio
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

import uvicorn

from service import logs
from service.embedded import PrivateStore
from service.errors import StoreUnavailable, StoreUnsuitable
from service.settings import Settings
from service.store import Store

_REACH_SECONDS = 10.0
_DRAIN_SECONDS = 10


def serve(settings: Settings) -> None:
    """Serves until it is told to stop."""
    logs.set_up()
    with ExitStack() as stack:
        where = "your store"
        if not settings.redis_url:
            private = PrivateStore(settings.data, appendfsync=settings.appendfsync)
            settings = replace(settings, redis_url=stack.enter_context(private).url)
            where = f"a private store in {settings.data}"
        asyncio.run(_verify(settings.redis_url))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(
            f"zooming: serving http://{host}:{settings.port} with {settings.workers} worker(s) on "
            f"{where}; the API is at /docs",
            file=sys.stderr,
            flush=True,
        )
        # Workers are processes of their own and load their settings from the environment.
        os.environ.update(settings.environment())
        uvicorn.run(
            "service.app:create_app",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )


async def _verify(url: str) -> None:
    """A store that is not up yet gets a little time; one that cannot be used gets none."""
    store = Store(url)
    deadline = time.monotonic() + _REACH_SECONDS
    try:
        while True:
            try:
                return await store.verify()
            except StoreUnavailable as error:
                if time.monotonic() > deadline:
                    raise StoreUnsuitable(
                        f"The store at ZOOMING_REDIS_URL could not be reached ({error}). Is it "
                        "running, and are address and password right?"
                    ) from error
                await asyncio.sleep(0.2)
    finally:
        await store.close()
