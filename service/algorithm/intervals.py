"""Dyadic context intervals: depth `d` and index `i` name [i·2^-d, (i+1)·2^-d).

`x = 1` belongs to the last interval of its depth, so each depth covers [0, 1] exactly once.
"""

from typing import NamedTuple


class Interval(NamedTuple):
    """One context interval."""

    depth: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which an interval has no use for

    @classmethod
    def holding(cls, x: float, *, depth: int) -> "Interval":
        """The interval of this depth that holds `x`."""
        return cls(depth, min(int(x * 2**depth), 2**depth - 1))

    @property
    def width(self) -> float:
        """Δ, the length of the interval."""
        return 2.0**-self.depth

    @property
    def start(self) -> float:
        """c0, the left end."""
        return self.index * self.width

    @property
    def end(self) -> float:
        """c1, the right end."""
        return (self.index + 1) * self.width

    @property
    def halves(self) -> tuple["Interval", "Interval"]:
        """The two intervals that a split makes of this one."""
        return (
            Interval(self.depth + 1, 2 * self.index),
            Interval(self.depth + 1, 2 * self.index + 1),
        )

    @property
    def parent(self) -> "Interval":
        """The interval that this one is a half of."""
        return Interval(self.depth - 1, self.index // 2)

    def half_of(self, x: float) -> int:
        """0 when `x` lies in the left half, 1 when in the right."""
        return Interval.holding(x, depth=self.depth + 1).index - 2 * self.index

    def bucket_of(self, x: float, *, buckets: int) -> int:
        """Which of `buckets` equal parts of the interval holds `x`."""
        return min(int((x - self.start) / self.width * buckets), buckets - 1)
