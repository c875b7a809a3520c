"""`zooming serve`: a store, checked, and workers on it.

The private store belongs to this process, not to a worker, so workers come and go without it.
"""

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from service import logs
from service.embedded import PrivateStore
from service.errors import BadSetting, StoreUnavailable, StoreUnsuitable
from service.settings import Settings
from service.slots import FOLDER_VARIABLE, metrics_folder
from service.store import Store

REACH_SECONDS = 10
_DRAIN_SECONDS = 10
# Longer than proxies and most clients keep an idle connection (nginx and load balancers: 60), so
# that it is they who close it: a request sent while the server closes is lost. Uvicorn's are 5.
_IDLE_SECONDS = 75
# A worker that does not answer its supervisor for so long is replaced. Uvicorn's 5 may pass while
# one starts on a busy machine, which would be killed for it, again and again.
_SILENT_SECONDS = 30
_BACKLOG = 2048


def serve(settings: Settings) -> None:
    """Serves until it is told to stop."""
    logs.set_up()
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop)
    with ExitStack() as stack:
        where = "your store"
        if not settings.redis_url:
            private = PrivateStore(settings.data, appendfsync=settings.appendfsync)
            settings = replace(settings, redis_url=stack.enter_context(private).url)
            where = f"a private store in {settings.data}"
        asyncio.run(_verify(settings.redis_url))
        # The workers' metrics are shared through files in here.
        os.environ[FOLDER_VARIABLE] = str(stack.enter_context(metrics_folder()))
        listener = stack.enter_context(_listen(settings.host, settings.port))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        port = listener.getsockname()[1]
        print(
            f"zooming: serving http://{host}:{port} with {settings.workers} worker(s) on {where}; "
            "the API is at /docs",
            file=sys.stderr,
            flush=True,
        )
        stop.if_told()
        _run_workers(settings, listener)


class _Stop:
    """What SIGTERM does until the workers' server has its own way to stop.

    By default it would end this process before it has ended what it started. The exit is lost when
    it is raised where Python drops exceptions, as in a `__del__`, so it is remembered.
    """

    def __init__(self) -> None:
        self._told = False

    def __call__(self, *_: object) -> None:
        self._told = True
        sys.exit(0)

    def if_told(self) -> None:
        """Stops, if that was asked for."""
        if self._told:
            sys.exit(0)


def _run_workers(settings: Settings, listener: socket.socket) -> None:
    # Workers are processes of their own and load their settings from the environment.
    os.environ.update(settings.environment())
    config = uvicorn.Config(
        "service.app:create_app",
        factory=True,
        workers=settings.workers,
        backlog=_BACKLOG,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_worker_healthcheck=_SILENT_SECONDS,
    )
    if settings.workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
        return
    supervisor = _Supervisor(config, sockets=[listener])
    supervisor.run()
    if any(worker.exitcode == STARTUP_FAILURE for worker in supervisor.processes):
        sys.exit(STARTUP_FAILURE)


class _Supervisor(Multiprocess):
    """Notices at once that a worker died, also while it waits for an answer from it.

    Uvicorn's keeps the worker's end of their pipe open itself, so that the pipe outlives the
    worker: one that dies before it has answered would be missed for all of `_SILENT_SECONDS`.
    """

    def keep_subprocess_alive(self) -> None:
        for worker in self.processes:
            worker.child_conn.close()
        super().keep_subprocess_alive()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise BadSetting(
            f"Cannot listen on port {port} of {host}: {error}. Give another --host or --port, or "
            "stop what uses it."
        ) from error


async def _verify(url: str) -> None:
    """A store that is not up yet gets a little time; one that cannot be used gets none."""
    try:
        store = Store(url)
    except ValueError as error:
        raise BadSetting(f"ZOOMING_REDIS_URL cannot be read: {error}.") from error
    deadline = time.monotonic() + REACH_SECONDS
    try:
        while True:
            try:
                await store.verify()
                return await store.install()
            except StoreUnavailable as error:
                if time.monotonic() > deadline:
                    raise StoreUnsuitable(
                        f"The store at ZOOMING_REDIS_URL could not be reached for {REACH_SECONDS} "
                        f"seconds ({error}). Is it running, and are address and password right?"
                    ) from error
                await asyncio.sleep(0.2)
    finally:
        await store.close()
