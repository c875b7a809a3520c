"""The packed records, byte for byte as the steps read and write them.

Each layout stands twice, here and in `lua/lib/`; a test packs with one and reads with the other.
"""

import math
import struct
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

from service.algorithm import Interval

ACTIVE, FLAGGED, SPLIT, ASLEEP = 1, 2, 3, 4
PHASES = {ACTIVE: "active", FLAGGED: "flagged", SPLIT: "split", ASLEEP: "active"}
STATES = {1: "open", 2: "rewarded", 3: "defaulted", 4: "censored", 5: "expired"}


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

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<?IIIIIddddddddddddd")

    binary: bool = True
    step: int = 0
    cursor: int = 0
    tried: int = 0
    fresh: int
    arms_rewarded: int = 0
    rewards: float = 0
    total: float = 0.0
    first_rewards: float = 0.0
    variance: float
    shown_lipschitz: float
    horizon: float
    loudest: float = 0.0
    evidence: float = 0.0
    squares: float = 0.0
    steepness: float = 1.0
    bent_at: float = 0.0
    bend_squares: float = 0.0
    bends_known: float = 0.0


@dataclass(slots=True)
class CurveBall:
    """A ball of an arm's curve; counts, sums and plays in flight for each half of its interval."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<dddddddddIBI")

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
    """The curve of an arm, and its balls from left to right."""

    HEAD: ClassVar[struct.Struct] = struct.Struct("<Iddddd")

    step: int
    rewards: float
    news: float
    drift: float
    bend_square: float
    bend_known: float
    balls: list[CurveBall]

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The record from the store's bytes."""
        rest = CurveBall.LAYOUT.iter_unpack(packed[cls.HEAD.size :])
        balls = [CurveBall(*values) for values in rest]
        names = (f.name for f in fields(cls))
        head = cls.HEAD.unpack_from(packed)
        return cls(**dict(zip(names, (*head, balls), strict=True)))


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
        """`active` (also while none of its arms is live), `flagged` or `split`."""
        return PHASES[self.phase]

    @property
    def interval(self) -> Interval:
        """The context interval."""
        return Interval(self.depth, self.index)

    @property
    def children(self) -> range:
        """The ids of the children; empty unless the ball is split."""
        return range(self.first, self.first + self.left + self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """A decision, as decision.lua keeps it.

    `reward` and `closed_at_ms` once it is closed, `reward` only if it was credited. `ucb` and that
    of the runner-up have seven digits; they are NaN where there was none.
    """

    state: str
    phase: str
    holdout: bool
    explored: bool
    at_ms: int
    x: float
    context: float
    closed_at_ms: int | None
    reward: float | None
    ball: int
    arm: int
    ucb: float
    runner_up: int
    runner_up_ucb: float
    propensity: float

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The record from the store's bytes."""
        first, x = packed[0], struct.unpack_from("<d", packed, 7)[0]
        at_ms = int.from_bytes(packed[1:7], "little")
        state = STATES[first & 7]
        reward = closed_at_ms = None
        if state != "open":
            closed_at_ms = at_ms + int.from_bytes(packed[26:31], "little")
        if state in ("rewarded", "defaulted"):
            reward = struct.unpack_from("<d", packed, 15)[0]
        ball, _, arm, ucb, runner_up_ucb, runner_up = struct.unpack_from("<IIIffI", packed, 31)
        rest = struct.unpack_from(f"<{(len(packed) - 55) // 8}d", packed, 55)
        return cls(
            state=state,
            phase=PHASES[FLAGGED if first & 8 else ACTIVE],
            holdout=bool(first & 16),
            explored=bool(first & 32),
            at_ms=at_ms,
            x=x,
            context=rest[-1] if first & 128 else x,
            closed_at_ms=closed_at_ms,
            reward=reward,
            ball=ball,
            arm=arm,
            ucb=_rounded(ucb),
            runner_up=runner_up,
            runner_up_ucb=_rounded(runner_up_ucb),
            propensity=rest[0] if first & 64 else 1.0,
        )


def _rounded(single: float) -> float:
    """A number of 32 bits has about seven digits; the others would be noise."""
    return float(f"{single:.7g}") if math.isfinite(single) else single
