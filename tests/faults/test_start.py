"""A service that cannot start says why in one line; however one ends, it leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from service.embedded import PrivateStore, find_server
from service.serve import REACH_SECONDS
from service.store import keys
from service.store.connection import TIME_LIMIT_SECONDS
from tests.support.audit import audit
from tests.support.load import Load, new_tenants
from tests.support.servers import (
    Service,
    descendants,
    free_port,
    is_running,
    kill,
    processes_in,
    running_service,
    wait_for,
    wait_until_ready,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the parent-death signal and /proc are Linux's"
)

ROOT = Path(__file__).parents[2]

REFUSED_SECONDS = REACH_SECONDS + TIME_LIMIT_SECONDS + 10.0  # to start, on a busy machine
# What a service is given, by the words that it must then refuse with.
REFUSALS = {
    "data folder of another service": "is in use by another service",
    "data folder below a file": "cannot use the data folder",
    "port in use": "Address already in use",
    "port out of range": "port must be 0-65535",
    "port that is no number": "ZOOMING_PORT must be a number, not 'abc'",
    "open to the network without a key": "Set ZOOMING_ADMIN_KEY",
    "no worker": "ZOOMING_WORKERS must be at least 1",
    "address that is none": "ZOOMING_REDIS_URL cannot be read",
    "store that evicts": "maxmemory-policy is 'allkeys-lru'",
    "store that is too old": "The store is version 6.2.14",
    "store with data of another form": "The store holds tenants in form 1",
    "store that is not there": f"could not be reached for {REACH_SECONDS} seconds",
}


@dataclass(frozen=True)
class Start:
    """A start that is to be refused, and the moment of it."""

    process: "subprocess.Popen[str]"
    began: float
    data: Path


@pytest.fixture(scope="module", autouse=True)
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Start]]:
    """All of them at once, and before the other tests, for one takes its time."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "file").touch()
    with ExitStack() as stack:
        stack.enter_context(PrivateStore(folder / "locked"))
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        used_port = str(listener.getsockname()[1])
        old, evicting = stack.enter_context(old_store()), stack.enter_context(evicting_store())
        other_form = stack.enter_context(PrivateStore(folder / "other-form"))
        with redis.Redis.from_url(other_form.url) as client:
            client.hset(keys.REGISTRY, "shop", "1a2b")
            client.hset(keys.tenant("shop"), "incarnation", "1a2b")  # before forms had numbers
        given: dict[str, dict[str, str]] = {
            "data folder of another service": {"DATA": str(folder / "locked")},
            "data folder below a file": {"DATA": str(folder / "file" / "below")},
            "port in use": {"PORT": used_port},
            "port out of range": {"PORT": "65536"},
            "port that is no number": {"PORT": "abc"},
            "open to the network without a key": {"HOST": "0.0.0.0"},  # noqa: S104 - refused
            "no worker": {"WORKERS": "0"},
            "address that is none": {"REDIS_URL": "localhost:6379"},
            "store that evicts": {"REDIS_URL": evicting},
            "store that is too old": {"REDIS_URL": old},
            "store with data of another form": {"REDIS_URL": other_form.url},
            "store that is not there": {"REDIS_URL": f"redis://127.0.0.1:{free_port()}"},
        }
        started = {}
        for number, (case, settings) in enumerate(given.items()):
            data = folder / f"data-{number}"
            started[case] = start(data, settings)
            stack.callback(end, started[case])
        yield started


def start(data: Path, settings: dict[str, str]) -> Start:
    """`zooming serve` with these settings."""
    inherited = {name: value for name, value in os.environ.items() if "ZOOMING_" not in name}
    settings = {"DATA": str(data), "PORT": str(free_port())} | settings
    process = subprocess.Popen(
        [sys.executable, "-m", "service", "serve"],
        cwd=ROOT,
        env=inherited | {f"ZOOMING_{name}": value for name, value in settings.items()},
        stderr=subprocess.PIPE,
        text=True,
    )
    return Start(process, time.monotonic(), data)


def end(started: Start) -> None:
    """Sees the process off, whatever has become of it."""
    with started.process as process:
        process.kill()


@contextmanager
def evicting_store() -> Iterator[str]:
    """The address of a server that drops keys when memory is short."""
    port = free_port()
    flags = ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen(
        [find_server(), *flags, "--maxmemory-policy", "allkeys-lru"], stdout=subprocess.DEVNULL
    ) as server:
        try:
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.kill()


@contextmanager
def old_store() -> Iterator[str]:
    """The address of what takes itself for Redis 6.2, as no such server can be installed here.

    It says so to INFO, and OK to all that a client says before.
    """
    info = b"redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\n"

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as lines:
            while head := lines.readline():
                words = []
                for _ in range(int(head[1:])):
                    length = int(lines.readline()[1:])
                    words.append(lines.read(length + 2)[:-2])
                is_info = words[0].upper() == b"INFO"
                connection.sendall(b"$%d\r\n%s\r\n" % (len(info), info) if is_info else b"+OK\r\n")

    def listen() -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("workers", [1, 2])
def test_told_to_stop(tmp_path: Path, workers: int) -> None:
    """By SIGTERM, and by Ctrl-C, which every process of the group gets."""
    with ExitStack() as stack:
        services = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            (folder := tmp_path / number.name).mkdir()
            services[number] = stack.enter_context(
                running_service(folder, workers=workers, ready=False)
            )
        for number, service in services.items():
            wait_until_ready(service)
            service.wait_for_workers(workers)
            family = descendants(service.process.pid)
            if number == signal.SIGINT:
                os.killpg(service.process.pid, number)
            else:
                service.process.send_signal(number)
            assert service.process.wait(30) in (0, 130), service.log_text()
            # The process that multiprocessing keeps for itself ends when the last other has.
            wait_for(partial(none_runs, family), seconds=2)
            assert len(service.log_text().splitlines()) == 1, service.log_text()


def none_runs(pids: list[int]) -> bool:
    """Whether all of these processes have ended."""
    return not any(is_running(pid) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_told_to_stop_while_it_starts(tmp_path: Path, number: signal.Signals) -> None:
    """Its store is already up, its workers are not."""
    with running_service(tmp_path, ready=False) as service:
        store = wait_for(service.store)
        service.process.send_signal(number)
        assert service.process.wait(30) in (0, 130), service.log_text()
        assert not is_running(store)
        assert "Traceback" not in service.log_text()


def test_told_to_stop_where_exceptions_are_dropped(store_url: str, tmp_path: Path) -> None:
    """A `__del__` runs at any time, and what is raised in it is lost."""
    program = """
import signal
from service import serve
from service.settings import Settings

class Forgotten:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

async def verify(url):
    Forgotten()

serve._verify = verify
serve.serve(Settings.load({"port": 0}))
"""
    environment = os.environ | {"ZOOMING_REDIS_URL": store_url, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environment, timeout=30, check=False).returncode == 0


def test_killed_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    """Workers and store end by themselves; the next service has all that was acknowledged."""
    with ExitStack() as stack:
        service = stack.enter_context(running_service(tmp_path, workers=3))
        tenants = new_tenants(service)
        load = Load(service.url, tenants)
        with load:
            load.wait_for_trials(100)
            check_supervisor_killed(service, stack, workers=3)
            socket.create_server(("127.0.0.1", urlsplit(service.url).port)).close()
            service = stack.enter_context(running_service(tmp_path))
            load.url = service.url
            load.wait_for_trials(30)
        load.verify(service)
        with service.store_client() as client:
            assert audit(client) == len(tenants)


def test_supervisor_killed_before_its_workers_are_up(tmp_path: Path) -> None:
    """They have not yet asked the kernel to tell them of its death."""
    with ExitStack() as stack:
        service = stack.enter_context(running_service(tmp_path, workers=2, ready=False))
        wait_for(lambda: len(service.workers()) == 2)
        check_supervisor_killed(service, stack, workers=2)


def check_supervisor_killed(service: Service, stack: ExitStack, *, workers: int) -> None:
    """Kills the first process of a service, and sees its workers, its store and all else end."""
    family = descendants(service.process.pid)
    assert len(service.workers()) == workers
    assert service.store() in family
    stack.callback(kill, family)
    service.process.kill()
    wait_for(partial(none_runs, family), what="the end of all that the service started")


@pytest.mark.parametrize("case", REFUSALS)
def test_refuses_to_start(starts: dict[str, Start], case: str) -> None:
    """With one line that names what is wrong, and no traceback."""
    started = starts[case]
    left = started.began + REFUSED_SECONDS - time.monotonic()
    _, told = started.process.communicate(timeout=max(1.0, left))
    assert started.process.returncode == 1, told
    [line] = told.splitlines()
    assert line.startswith("zooming: ")
    assert REFUSALS[case] in line
    assert processes_in(started.data) == []
