"""The lines of a decision log, from a file or the standard input, with progress on a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import BadLog

_SHOWN_SECONDS = 0.2


@contextmanager
def log_lines(log: str) -> Iterator[Iterator[bytes]]:
    """The lines of this file; `-` is the standard input."""
    if log == "-":
        yield _with_progress(sys.stdin.buffer)
        return
    try:
        file = Path(log).open("rb")  # noqa: SIM115 - closed below, and its errors told apart
    except OSError as error:
        raise BadLog(f"The log '{log}' cannot be read: {error.strerror}.") from error
    with file:
        yield _with_progress(file)


def _with_progress(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Shown on a terminal alone, and not where the report goes."""
    is_shown, next_at = sys.stderr.isatty(), time.monotonic() + _SHOWN_SECONDS
    for number, line in enumerate(lines, 1):
        if is_shown and time.monotonic() > next_at:
            print(f"\r{number:,} lines", end="", file=sys.stderr, flush=True)
            next_at = time.monotonic() + _SHOWN_SECONDS
        yield line
    if is_shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
