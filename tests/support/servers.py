"""Real servers for tests: a store of their own, services on it, ended by process id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from service.embedded import PrivateStore, find_server
from service.errors import StoreStartError

START_SECONDS = 60.0


def wait_for(condition: Callable[[], Any], *, seconds: float = 20.0, what: str = "") -> Any:
    """The condition's value as soon as it is true; it is asked ever less often."""
    started, pause = time.monotonic(), 0.01
    while not (value := condition()):
        if time.monotonic() > started + seconds:
            raise AssertionError(f"{what or condition} did not come about in {seconds} s")
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)
    return value


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_store() -> None:
    """Skips the test where there is no server for a private store; in CI that is a failure."""
    try:
        find_server()
    except StoreStartError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no store: {error}")


@contextmanager
def lasting_store(folder: Path) -> Iterator[str]:
    """The URL of a store for many tests."""
    require_store()
    # What is tested on it is not durability, so the disk need not be waited for.
    with PrivateStore(folder, appendfsync="everysec") as private:
        yield private.url


@dataclass
class Service:
    """A running `zooming serve`."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def log_text(self) -> str:
        """All that the service said on standard error."""
        return self.log.read_text()

    def workers(self) -> list[int]:
        """The process ids of the workers: all descendants that run the app."""
        return [pid for pid in descendants(self.process.pid) if "spawn_main" in command_of(pid)]

    def workers_with_connections(self) -> set[int]:
        """The workers that hold a connection of some client."""
        port = f":{int(self.url.rpartition(':')[2]):04X}"
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        established = {row[9] for row in rows if row[1].endswith(port) and row[3] == "01"}
        return {
            pid
            for pid in self.workers() or [self.process.pid]
            if any(f"socket:[{inode}]" in sockets_of(pid) for inode in established)
        }

    def store(self) -> int | None:
        """The process id of the private store, while it has one that runs."""
        servers = (pid for pid in descendants(self.process.pid) if is_store(pid))
        return next(servers, None)

    def store_client(self) -> "redis.Redis":
        """A plain client on the private store."""
        return redis.Redis(unix_socket_path=str(self.log.parent / "data" / "store.sock"))

    def wait_for_workers(self, count: int) -> None:
        """Returns when so many workers serve on the private store; ready means only one."""
        with self.store_client() as client:  # each has its connection before it serves
            wait_for(lambda: len(client.client_list()) > count, what=f"{count} workers")

    def counters(self, tenant: str) -> dict[str, int]:
        """What the service counts of a tenant."""
        # On a connection of its own: the worker at the other end of a kept one may be dead.
        answer = httpx.get(f"{self.url}/tenants/{tenant}", timeout=30).raise_for_status()
        counters: dict[str, int] = answer.json()["counters"]
        return counters

    def stop(self) -> None:
        """Ends the service as an operator would."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def children_of(pid: int) -> list[int]:
    """The processes that this one started; none if it is gone."""
    found = []
    with suppress(OSError):  # it may end while we look
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in tasks.read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    return [member for child in children_of(pid) for member in [child, *descendants(child)]]


def sockets_of(pid: int) -> set[str]:
    """The sockets that a process has open."""
    links = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it may be closed while we look
            links.add(str(descriptor.readlink()))
    return links


def command_of(pid: int) -> str:
    """The command line of a process, or nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def is_store(pid: int) -> bool:
    """Whether the process is a running Redis or Valkey server."""
    return command_of(pid).partition(" ")[0].endswith("-server") and is_running(pid)


def is_running(pid: int) -> bool:
    """Whether the process lives; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def processes_in(folder: Path) -> list[int]:
    """The processes whose working directory is this one, as that of a private store is its data."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end while we look, and a dead one has no folder
            if (process / "cwd").readlink() == folder:
                found.append(int(process.name))
    return found


def kill(pids: Iterable[int]) -> None:
    """Ends those of these processes that still run."""
    for pid in pids:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def running_service(
    folder: Path,
    *,
    redis_url: str = "",
    workers: int = 1,
    ready: bool = True,
    **variables: str,
) -> Iterator[Service]:
    """`zooming serve` on a free port; without a URL it has a private store in `folder`."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if "ZOOMING_" not in name}
    flags = ["--port", str(port), "--workers", str(workers), "--data", str(folder / "data")]
    if redis_url:
        flags += ["--redis-url", redis_url]
    log = folder / f"service-{port}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "service", "serve", *flags],
            env=inherited | variables,
            stderr=stderr,
            start_new_session=True,
        )
    service = Service(process, f"http://127.0.0.1:{port}", log)
    try:
        if ready:
            wait_until_ready(service)
        yield service
    finally:
        family = descendants(process.pid)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        service.client.close()
        wait_for(
            lambda: not any(is_running(pid) for pid in family),
            what="the end of all that the service started",
        )


def wait_until_ready(service: Service) -> None:
    """Returns when the service answers `/health/ready` with 200."""

    def ready() -> bool:
        assert service.process.poll() is None, service.log_text()
        try:
            return service.client.get("/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    wait_for(ready, seconds=START_SECONDS, what="a ready service")
