"""The packed records, byte for byte as the scripts read and write them.

Each layout stands twice, here and in `lua/lib/`; a test packs with one and reads with the other.
"""

import struct
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from service.algorithm import Interval

ACTIVE, FLAGGED, SPLIT = 1, 2, 3
PHASES = {ACTIVE: "active", FLAGGED: "flagged", SPLIT: "split"}


@dataclass(slots=True, kw_only=True)
class BallRecord:
    """A ball.

    `n` and `total` count the rewards of its active phase, `samples` those of its flagged phase;
    `asked` arms still owe samples, `filled` is how many samples count towards `k` in their cells.
    `k` is 0 where no samples are needed. The children's ids start at `first`.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBIIIIIIIIdddddIII")

    phase: int = ACTIVE
    depth: int
    index: int
    parent: int = 0
    arms: int
    n: int = 0
    selects: int = 0
    cursor: int = 0
    asked: int = 0
    samples: int = 0
    filled: float = 0.0
    total: float = 0.0
    bias: float
    flag_at: float
    k: float
    first: int = 0
    left: int = 0
    right: int = 0

    def pack(self) -> bytes:
        """The record as the store keeps it."""
        return self.LAYOUT.pack(*(getattr(self, f.name) for f in fields(self)))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The record from the store's bytes."""
        names = (f.name for f in fields(cls))
        return cls(**dict(zip(names, cls.LAYOUT.unpack(packed), strict=True)))

    @property
    def phase_name(self) -> str:
        """`active`, `flagged` or `split`."""
        return PHASES[self.phase]

    @property
    def interval(self) -> Interval:
        """The context interval."""
        return Interval(self.depth, self.index)

    @property
    def children(self) -> range:
        """The ids of the children; empty unless the ball is split."""
        return range(self.first, self.first + self.left + self.right)
