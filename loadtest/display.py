"""The live display: a block rewritten in place on a terminal, elsewhere a line now and then."""

import shutil
import sys
import time
from collections import deque
from typing import NamedTuple, TextIO

from loadtest.plan import Plan
from loadtest.record import Record
from loadtest.tally import DUE, SELECT, Learning

REFRESH_SECONDS = 0.5
LINE_SECONDS = 5.0
FOREVER_LINE_SECONDS = 60.0  # it goes to a log
LATELY_SECONDS = 5.0
_UP, _CLEAR = "\x1b[{}A", "\x1b[K"


class _Moment(NamedTuple):
    at: float
    trials: int
    earned: float


class Display:
    """Shows a record as it grows."""

    def __init__(self, plan: Plan, *, out: TextIO = sys.stdout) -> None:
        self._plan = plan
        self._out = out
        self._terminal = out.isatty()
        line_seconds = FOREVER_LINE_SECONDS if plan.forever else LINE_SECONDS
        self._every_seconds = REFRESH_SECONDS if self._terminal else line_seconds
        self._shown_at = time.monotonic()
        self._lines = 0
        self._moments = deque([_Moment(time.monotonic(), 0, 0.0)])

    def show(self, record: Record) -> None:
        """Shows the record, if the last time is long enough ago."""
        now = time.monotonic()
        if now - self._shown_at < self._every_seconds:
            return
        self._shown_at = now
        self._remember(now, record.learning)
        if self._terminal:
            self._rewrite(self._block(record))
        else:
            print(self._line(record), file=self._out, flush=True)

    def _rewrite(self, lines: list[str]) -> None:
        up = _UP.format(self._lines) if self._lines else ""
        # A line that wraps would be two, and the next block would begin too low.
        width = shutil.get_terminal_size().columns - 1
        self._out.write(up + "".join(f"{line[:width]}{_CLEAR}\n" for line in lines))
        self._out.flush()
        self._lines = len(lines)

    def _remember(self, now: float, learning: Learning) -> None:
        self._moments.append(_Moment(now, learning.trials, learning.earned))
        while len(self._moments) > 2 and now - self._moments[1].at >= LATELY_SECONDS:
            self._moments.popleft()

    def _lately(self) -> tuple[float, float]:
        """Selects a second and the average reward, over the last seconds."""
        first, last = self._moments[0], self._moments[-1]
        trials = last.trials - first.trials
        seconds = last.at - first.at
        rate = trials / seconds if seconds else 0.0
        return rate, (last.earned - first.earned) / trials if trials else 0.0

    def _progress(self, record: Record) -> str:
        elapsed = time.monotonic() - record.start
        if self._plan.seconds is not None:
            left = self._plan.seconds - elapsed
            return f"{elapsed:.0f} s, " + (
                f"{left:.0f} s left" if left > 0 else "waiting for the last rewards"
            )
        return f"{elapsed:.0f} s, {record.learning.trials} of {self._plan.trials} trials"

    def _line(self, record: Record) -> str:
        rate, reward = self._lately()
        p50, p99 = _percentiles(record, 50.0, 99.0)
        failed = sum(sum(kinds.values()) for kinds in record.errors().values())
        return (
            f"{self._progress(record)}   {rate:.0f} selects/s   p50 {p50:.1f} ms   "
            f"p99 {p99:.1f} ms   {failed} errors   average reward {reward:.3f}"
        )

    def _block(self, record: Record) -> list[str]:
        rate, reward = self._lately()
        p50, p90, p99, longest = _percentiles(record, 50.0, 90.0, 99.0, 100.0)
        learning = record.learning
        trials = max(1, learning.trials)
        errors = [
            f"{call} {kind} {count}"
            for call, kinds in record.errors().items()
            for kind, count in kinds.items()
        ]
        return [
            f"  time      {self._progress(record)}",
            f"  rate      {rate:.0f} selects a second, {sum(record.in_flight.values())} in flight",
            f"  latency   p50 {p50:.1f}   p90 {p90:.1f}   p99 {p99:.1f}   max {longest:.1f} ms",
            f"  errors    {', '.join(errors) or 'none'}",
            f"  reward    {reward:.3f} lately (a random arm {learning.at_random / trials:.3f}, "
            f"the optimum {learning.optimum / trials:.3f})",
            f"  regret    {learning.regret:.1f} in {learning.trials} trials",
        ]


def _percentiles(record: Record, *percentiles: float) -> list[float]:
    latencies = record.latencies.get((SELECT, DUE))
    return latencies.percentiles_ms(percentiles) if latencies else [0.0] * len(percentiles)
