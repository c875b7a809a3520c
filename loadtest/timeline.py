"""The course of a load test, in slices of time.

However long the test takes, there are at most `MOST_SLICES`: when they run out, each two become
one of twice the length. So a test may go on for ever, and its course has always 100 to 200 points.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from loadtest.latency import Latencies
from loadtest.tally import DUE, FLUSH_SECONDS, SELECT, Learning, Tally

MOST_SLICES = 200


@dataclass
class Slice:
    """What happened within a slice of time."""

    latencies: Latencies = field(default_factory=lambda: Latencies(digits=2))  # of selects
    learning: Learning = field(default_factory=Learning)

    def add(self, other: "Slice") -> None:
        """Takes in another slice."""
        self.latencies.add(other.latencies)
        self.learning.add(other.learning)


class Timeline:
    """Slices from the start on, all of the same length."""

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.slice_seconds = FLUSH_SECONDS

    def add(self, tally: Tally, *, at_seconds: float) -> None:
        """Takes in what was seen until now."""
        while at_seconds >= self.slice_seconds * MOST_SLICES:
            self._halve()
        while len(self.slices) <= at_seconds / self.slice_seconds:
            self.slices.append(Slice())
        now = self.slices[int(at_seconds / self.slice_seconds)]
        now.latencies.record(tally.latencies_us.get((SELECT, DUE), ()))
        now.learning.add(tally.learning)

    def ends_seconds(self) -> list[float]:
        """When each slice ends."""
        return [(number + 1) * self.slice_seconds for number in range(len(self.slices))]

    def running(self) -> list[Learning]:
        """The sums from the start to the end of each slice, beginning with none."""
        sums = [Learning()]
        for piece in self.slices:
            sums.append(replace(sums[-1]))
            sums[-1].add(piece.learning)
        return sums

    def between(self, first: float, last: float) -> Learning:
        """What was earned from one trial to another; within a slice, evenly."""
        running = self.running()
        trials = [sums.trials for sums in running]

        def at(trial: float, name: str) -> float:
            return float(np.interp(trial, trials, [getattr(sums, name) for sums in running]))

        parts = {
            name: at(last, name) - at(first, name) for name in ("earned", "optimum", "at_random")
        }
        return Learning(trials=round(last - first), **parts)

    def _halve(self) -> None:
        self.slice_seconds *= 2
        for first, second in zip(self.slices[::2], self.slices[1::2], strict=False):
            first.add(second)
        self.slices = self.slices[::2]
