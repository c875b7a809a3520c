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
    in_flight: int = 0  # requests, at the most that was seen

    def add(self, other: "Slice") -> None:
        """Takes in another slice."""
        self.in_flight = max(self.in_flight, other.in_flight)
        self.latencies.add(other.latencies)
        self.learning.add(other.learning)


class Timeline:
    """Slices from the start on, all of the same length."""

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.slice_seconds = FLUSH_SECONDS

    def add(self, tally: Tally, *, in_flight: int) -> None:
        """Takes in what a process saw in a slot, and the requests of all that were under way."""
        at_seconds = tally.slot * FLUSH_SECONDS
        while at_seconds >= self.slice_seconds * MOST_SLICES:
            self._halve()
        place = int(at_seconds / self.slice_seconds)
        while len(self.slices) <= place:
            self.slices.append(Slice())
        piece = self.slices[place]
        piece.latencies.record(tally.latencies_us.get((SELECT, DUE), ()))
        piece.learning.add(tally.learning)
        piece.in_flight = max(piece.in_flight, in_flight)

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
