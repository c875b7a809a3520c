"""Packs the children of a split for the store: records, arm sets, the forwarding table.

The forwarding table has, for each half and each arm of the parent, which child holds the arm and at
which position: what a late reward needs to find its ball.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.algorithm import Config, Interval
from service.store.records import BallRecord

# One staging step stays below about 2 ms.
_CHUNK_CHILDREN = 200
_CHUNK_BYTES = 1 << 17
# In the forwarding table: the arm has been retired.
NOWHERE = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one staging step writes."""

    place: int
    offset: int
    forward: bytes
    children: list[bytes]


@dataclass(frozen=True, slots=True)
class Children:
    """All children of a ball, the left half's first."""

    left: int
    right: int
    records: list[bytes]
    arm_sets: list[bytes]
    forward: bytes

    def chunks(self) -> Iterator[Chunk]:
        """The children in portions, then what is left of the forwarding table."""
        place = 0
        while place < len(self.records):
            end, size = place, 0
            while (
                end < len(self.records)
                and end - place < _CHUNK_CHILDREN
                and (end == place or size + len(self.arm_sets[end]) <= _CHUNK_BYTES)
            ):
                size += len(self.arm_sets[end])
                end += 1
            pairs = zip(self.records[place:end], self.arm_sets[place:end], strict=True)
            yield Chunk(place, 0, b"", [part for pair in pairs for part in pair])
            place = end
        for offset in range(0, len(self.forward), _CHUNK_BYTES):
            yield Chunk(place, offset, self.forward[offset : offset + _CHUNK_BYTES], [])


def ball_record(config: Config, interval: Interval, *, arms: int) -> BallRecord:
    """A new ball's record, with its constants."""
    k = 0
    if config.needs_samples(arms):
        k = config.parameters.neighbours_for(arms=arms, width=interval.width)
    return BallRecord(
        depth=interval.depth,
        index=interval.index,
        arms=arms,
        bias=config.parameters.bias(interval.width),
        flag_at=config.parameters.flag_at(interval.depth),
        k=float(k),
    )


def pack_children(
    config: Config,
    interval: Interval,
    *,
    arms: NDArray[np.intp],
    kept: NDArray[np.bool_],
    halves: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> Children:
    """The children that the clusters of both halves make of the arms that are kept."""
    records: list[bytes] = []
    arm_sets: list[bytes] = []
    forward = np.full((2, len(arms), 2), NOWHERE, dtype="<u4")
    places, arms = np.flatnonzero(kept), arms[kept]
    counts = []
    for half, (labels, half_interval) in enumerate(zip(halves, interval.halves, strict=True)):
        sizes = np.bincount(labels)
        ends = np.cumsum(sizes)
        order = np.argsort(labels, kind="stable")
        forward[half, places, 0] = labels + len(records)
        forward[half, places[order], 1] = np.arange(len(arms)) - np.repeat(ends - sizes, sizes)
        packed = arms[order].astype("<u4").tobytes()
        record_of_size = {
            size: ball_record(config, half_interval, arms=size).pack()
            for size in set(sizes.tolist())
        }
        for size, end in zip(sizes.tolist(), ends.tolist(), strict=True):
            records.append(record_of_size[size])
            arm_sets.append(packed[4 * (end - size) : 4 * end])
        counts.append(len(sizes))
    return Children(counts[0], counts[1], records, arm_sets, forward.tobytes())
