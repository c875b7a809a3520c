"""Latencies, all of them, in the little memory of an HdrHistogram."""

from collections.abc import Iterable, Sequence

import numpy as np
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # it has no types

LONGEST_US = 3_600_000_000


class Latencies:
    """A distribution of latencies, exact to some digits; milliseconds go out.

    Three digits take 180 KB, two take 25.
    """

    def __init__(self, *, digits: int = 3) -> None:
        self._histogram = HdrHistogram(1, LONGEST_US, digits)

    def record(self, latencies_us: Iterable[int]) -> None:
        """Takes in latencies in microseconds."""
        values, counts = np.unique(np.fromiter(latencies_us, np.int64), return_counts=True)
        for value, count in zip(values.clip(1, LONGEST_US).tolist(), counts.tolist(), strict=True):
            self._histogram.record_value(value, count)

    def add(self, other: "Latencies") -> None:
        """Takes in another distribution."""
        self._histogram.add(other._histogram)

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self._histogram.get_total_count())

    @property
    def max_ms(self) -> float:
        """The longest."""
        return float(self._histogram.get_max_value()) / 1e3

    def percentiles_ms(self, percentiles: Sequence[float]) -> list[float]:
        """The latencies that these percentages of all do not exceed; 0 when there are none."""
        if not self.count:
            return [0.0 for _ in percentiles]
        found = self._histogram.get_percentile_to_value_dict(sorted(percentiles))
        return [float(found[percentile]) / 1e3 for percentile in percentiles]
