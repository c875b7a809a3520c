"""The packed records, byte for byte as the scripts read and write them.

Each layout stands twice, here and in `lua/lib/`; a test packs with one and reads with the other.
"""

import struct
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

from service.algorithm import Interval

ACTIVE, FLAGGED, SPLIT = 1, 2, 3
PHASES = {ACTIVE: "active", FLAGGED: "flagged", SPLIT: "split"}


class Packed:
    """A dataclass whose fields are kept one after the other, as `LAYOUT` says."""

    __slots__ = ()
    LAYOUT: ClassVar[struct.Struct]

    def pack(self) -> bytes:
        """The record as the store keeps it."""
        return self.LAYOUT.pack(*(getattr(self, f.name) for f in fields(cast(Any, self))))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The record from the store's bytes."""
        names = (f.name for f in fields(cast(Any, cls)))
        return cls(**dict(zip(names, cls.LAYOUT.unpack(packed), strict=True)))


@dataclass(slots=True, kw_only=True)
class ModelRecord(Packed):
    """What a tenant of the preset `adaptive` has learned beyond single arms."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<IIIIddddddddd")

    step: int = 0
    cursor: int = 0
    tried: int = 0
    arms_rewarded: int = 0
    rewards: float = 0
    total: float = 0.0
    first_rewards: float = 0.0
    variance: float
    lipschitz: float
    future: float
    loudest: float = 0.0
    evidence: float = 0.0
    squares: float = 0.0


@dataclass(slots=True)
class CurveBall:
    """A ball of an arm's curve; counts, sums and plays in flight for each half of its interval."""

    FIELDS: ClassVar[str] = "dddddddddIBI"

    count_left: float
    count_right: float
    total_left: float
    total_right: float
    flying_left: float
    flying_right: float
    mean: float
    variance: float
    ucb: float
    id: int
    depth: int
    index: int

    @property
    def interval(self) -> Interval:
        """The context interval."""
        return Interval(self.depth, self.index)


@dataclass(slots=True, kw_only=True)
class CurveRecord:
    """The curve of an arm: its balls from left to right, kept field by field."""

    HEAD: ClassVar[struct.Struct] = struct.Struct("<Iddd")

    step: int
    rewards: float
    news: float
    drift: float
    balls: list[CurveBall]

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The record from the store's bytes."""
        step, rewards, news, drift = cls.HEAD.unpack_from(packed)
        count = (len(packed) - cls.HEAD.size) // struct.calcsize("<" + CurveBall.FIELDS)
        layout = "<" + "".join(f"{count}{field}" for field in CurveBall.FIELDS)
        values = struct.unpack_from(layout, packed, cls.HEAD.size)
        balls = [CurveBall(*values[place::count]) for place in range(count)]
        return cls(step=step, rewards=rewards, news=news, drift=drift, balls=balls)


@dataclass(slots=True, kw_only=True)
class BallRecord(Packed):
    """A ball.

    `n` and `total` count the rewards of its active phase, `samples` those of its flagged phase;
    `asked` arms still owe samples, `filled` is how many samples count towards `k` in their cells.
    `k` is 0 where no samples are needed. The children's ids start at `first`. Counts that grow for
    ever are doubles, which stay exact far longer than 32 bits last.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBIIIIddddddddIII")

    phase: int = ACTIVE
    depth: int
    index: int
    arms: int
    cursor: int = 0
    asked: int = 0
    n: float = 0
    selects: float = 0
    samples: float = 0
    filled: float = 0
    total: float = 0.0
    bias: float
    flag_at: float
    k: float
    first: int = 0
    left: int = 0
    right: int = 0

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
