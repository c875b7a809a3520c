"""Context scales: how the numbers that callers send become contexts in [0, 1].

A scale is called with one number at each select, so it is plain Python: two comparisons and a
division, or a bisection of at most `MOST_KNOTS` values. Every scale is monotone, and never changes.
`auto` is none by itself: it makes two, from the first contexts of a tenant.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

# More would be no better: each holds 1/256 of the sample, narrower than most balls get.
MOST_KNOTS = 256
# How much of `auto` is the quantile, the rest being linear over the range of the sample. Curves
# that are steep by quantiles alone, as where contexts leave a gap, stay within four times their
# slope over the range, and those that are steep over the range within 4/3 of that over quantiles.
EVENNESS = 0.75


class OutsideScale(ValueError):
    """A number that the scale refuses; the message says which numbers it takes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Contexts are sent as numbers in [0, 1], and stay as they are."""

    def __call__(self, value: float) -> float:
        """The context; refused outside [0, 1]."""
        if 0.0 <= value <= 1.0:
            return value
        raise OutsideScale("The context must be between 0 and 1.")

    def setting(self) -> dict[str, Any]:
        """As a tenant's configuration says it."""
        return {"kind": "unit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """`low` becomes 0 and `high` 1; what lies outside is moved to the nearer end, or refused."""

    low: float
    high: float
    outside: str = "clamp"

    def __call__(self, value: float) -> float:
        """The context of the number."""
        if self.low <= value <= self.high:
            return (value - self.low) / (self.high - self.low)
        if self.outside == "clamp":
            return 0.0 if value < self.low else 1.0
        raise OutsideScale(f"The context must be between {self.low:g} and {self.high:g}.")

    def setting(self) -> dict[str, Any]:
        """As a tenant's configuration says it."""
        return {"kind": "linear", "low": self.low, "high": self.high, "outside": self.outside}


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A number becomes the share of a sample that lies below it, so that contexts are even.

    The knots are values of the sample, rising, and their places: the share below and half of the
    share equal. Between knots the scale is linear; below the sample it is 0, and above it 1.
    """

    values: tuple[float, ...]
    places: tuple[float, ...]

    @classmethod
    def of(cls, sample: Iterable[float], *, evenness: float = 1.0) -> "Quantiles":
        """The scale of a sample, with at most `MOST_KNOTS` knots; see `EVENNESS`."""
        values, counts = np.unique(np.fromiter(sample, dtype=np.float64), return_counts=True)
        places = (np.cumsum(counts) - counts / 2) / counts.sum()
        if len(values) > 1:
            linear = (values - values[0]) / (values[-1] - values[0])
            places = evenness * places + (1.0 - evenness) * linear
        if len(values) > MOST_KNOTS:
            kept = _even(places)
            values, places = values[kept], places[kept]
        return cls(tuple(values.tolist()), tuple(places.tolist()))

    def __call__(self, value: float) -> float:
        """The context of the number."""
        values, places = self.values, self.places
        above = bisect_right(values, value)
        if above == 0:
            return 0.0
        if above == len(values):
            return places[-1] if value == values[-1] else 1.0
        left, right = values[above - 1], values[above]
        low, high = places[above - 1], places[above]
        # Rounding may lead past the end of the piece, and the scale must not fall after it.
        return min(low + (value - left) / (right - left) * (high - low), high)

    def setting(self) -> dict[str, Any]:
        """As a tenant's configuration says it, with the places in it: they are not made anew."""
        return {"kind": "quantiles", "values": list(self.values), "places": list(self.places)}


@dataclass(frozen=True, slots=True)
class Ranks:
    """The scale while a sample is being gathered: as `Quantiles`, of it and the number itself.

    The first of all becomes ½.
    """

    seen: tuple[float, ...]  # rising
    evenness: float = 1.0

    def __call__(self, value: float) -> float:
        """The context of the number."""
        seen = self.seen
        below, up_to = bisect_left(seen, value), bisect_right(seen, value)
        rank = (below + up_to + 1) / (2 * (len(seen) + 1))
        low, high = (min(seen[0], value), max(seen[-1], value)) if seen else (value, value)
        linear = (value - low) / (high - low) if low < high else 0.5
        return self.evenness * rank + (1.0 - self.evenness) * linear


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Quantiles of a tenant's first contexts, so many of them, made less uneven by `EVENNESS`."""

    contexts: int
    evenness: ClassVar[float] = EVENNESS

    def scale(self, seen: Iterable[float]) -> Ranks | Quantiles:
        """For the next context, from all that came before it, or at least the first `contexts`.

        If these are all the same, they are no scale until another one comes.
        """
        first = list(seen)
        differs = next((place for place, one in enumerate(first) if one != first[0]), len(first))
        return self._ranks_or_frozen(sorted(first[: max(self.contexts, differs + 1)]))

    def _ranks_or_frozen(self, ranked: list[float]) -> Ranks | Quantiles:
        if len(ranked) < self.contexts or ranked[0] == ranked[-1]:
            return Ranks(tuple(ranked), self.evenness)
        return Quantiles.of(ranked, evenness=self.evenness)

    def in_turn(
        self, seen: Iterable[float], contexts: Iterable[float]
    ) -> Iterator[Ranks | Quantiles]:
        """The same for each of these contexts, which come one after the other."""
        before = list(seen)
        scale, ranked = self.scale(before), sorted(before)
        for context in contexts:
            yield scale
            if isinstance(scale, Ranks):
                insort(ranked, context)
                scale = self._ranks_or_frozen(ranked)

    def setting(self) -> dict[str, Any]:
        """As a tenant's configuration says it."""
        return {"kind": "auto", "contexts": self.contexts}


Scale = Unit | Linear | Quantiles | Ranks


def scale_from(setting: Mapping[str, Any]) -> Unit | Linear | Quantiles | Auto:
    """What a tenant's configuration describes."""
    match setting["kind"]:
        case "linear":
            return Linear(low=setting["low"], high=setting["high"], outside=setting["outside"])
        case "quantiles" if "places" in setting:
            return Quantiles(tuple(setting["values"]), tuple(setting["places"]))
        case "quantiles":
            return Quantiles.of(setting["values"])
        case "auto":
            return Auto(contexts=setting["contexts"])
        case _:
            return Unit()


def _even(places: NDArray[np.float64]) -> NDArray[np.intp]:
    """Of many places, the numbers of those nearest to an even grid, the ends included.

    Between two of those kept lie places that differ from both by two steps of the grid at the most.
    """
    grid = np.linspace(places[0], places[-1], MOST_KNOTS)
    right = np.searchsorted(places, grid).clip(1, len(places) - 1)
    nearer_left = grid - places[right - 1] <= places[right] - grid
    return np.unique(np.where(nearer_left, right - 1, right))
