"""How far long work is: one line, rewritten on a terminal, elsewhere a line for each tenth."""

import sys
import time

_LINES, _REWRITES = 10, 100
_CLEAR = "\x1b[K"


class Progress:
    """The progress of so many things; those `done` before are not counted in the pace."""

    def __init__(self, total: int, *, things: str, done: int = 0) -> None:
        self._total = total
        self._things = things
        self._before = done
        self._started = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._every = max(1, total // (_REWRITES if self._terminal else _LINES))

    def show(self, done: int, about: str = "") -> None:
        """Tells it now and then, with the pace, the time left and what else there is to say."""
        if done % self._every and done != self._total:
            return
        rate = (done - self._before) / max(time.monotonic() - self._started, 1e-9)
        left = (self._total - done) / max(rate, 1e-9)
        so_far = f"{done:>6} of {self._total} {self._things}"
        line = f"{so_far}   {rate:6.1f} a second   {left:4.0f} s left   {about}"
        if self._terminal:
            ending = "\n" if done == self._total else "\r"
            print(f"{_CLEAR}{line.rstrip()}", end=ending, flush=True)
        else:
            print(line.rstrip(), flush=True)
