"""Where the workers of one service keep the files of their metrics, and which worker has which.

Each worker holds a numbered slot, by a lock that ends with it however it ends. A worker that takes
the place of a dead one takes its slot and goes on with its files: nothing that was counted is lost,
and there are never more files than workers that ran at the same time.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

# The metrics library looks here for the folder.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "zooming-metrics-"
_FILE_BYTES = 1 << 16
# Whoever looks which slots are held takes each free one for a moment.
_GLANCES, _GLANCE_SECONDS = 5, 0.002


@contextmanager
def metrics_folder() -> Iterator[Path]:
    """A new folder, there as long as the service runs; what killed services left is removed.

    It is locked as a whole, which also keeps system services that clean up from touching it.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(OSError), _locked(folder):
            if not folder.exists():  # another service was quicker, and took it for left behind
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises an `OSError` unless the folder is this user's and nobody has it locked."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to someone else")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def take_slot(folder: Path, *, files: tuple[str, ...]) -> int:
    """The lowest slot that no living process has; it is held until this process ends.

    `files` are the kinds of the slot's files. They are there, empty, before anyone writes: whoever
    reads them meanwhile must not meet one without a beginning.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    slot = next(slot for slot in count() if _take(folder / f"worker-{slot}"))
    for kind in files:
        file = folder / f"{kind}_{slot}.db"
        if not file.exists():
            empty = file.with_suffix(".new")
            empty.write_bytes(bytes(_FILE_BYTES))
            empty.replace(file)
    return slot


def _take(path: Path) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(_GLANCES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_GLANCE_SECONDS)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return True  # the lock stays open, and so is held
    os.close(lock)
    return False


def living_workers(folder: Path) -> dict[int, int]:
    """The slots that are held, and the process that holds each."""
    living = {}
    for path in folder.glob("worker-*"):
        with path.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                living[int(path.name.removeprefix("worker-"))] = int(lock.read() or 0)
    return living


def resident_bytes(pid: int) -> int | None:
    """The memory that a process has in use, where the system tells it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
