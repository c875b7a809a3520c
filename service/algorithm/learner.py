"""Approx-Zooming, whole, sequential and in memory: the algorithm to read beside the paper.

The engine on Redis plays the same arms in the same balls, trial by trial; the tests hold it to this
file. Rewards may come late, in any order, or never: a decision stays valid until it is rewarded.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from service.algorithm.catalogue import Catalogue, NoArm
from service.algorithm.config import Config
from service.algorithm.intervals import Interval
from service.algorithm.subpartition import SAMPLE, sub_partition

# An unrewarded ball that has been selected this often ranks below every rewarded one.
UNREWARDED_SELECTS = 16


@dataclass(slots=True, eq=False)
class Ball:
    """A context interval times a set of arms, in catalogue order."""

    id: int
    interval: Interval
    arms: list[int]
    n: int = 0
    total: float = 0.0
    cursor: int = 0
    selects: int = 0
    rank: tuple[int, float, int] = (0, 0, 0)
    flagged: "Flagged | None" = None
    children: tuple[dict[int, "Ball"], dict[int, "Ball"]] | None = None

    @property
    def phase(self) -> str:
        """`split` means that the ball has left the partition."""
        if self.children is not None:
            return "split"
        return "active" if self.flagged is None else "flagged"


@dataclass(slots=True, eq=False)
class Flagged:
    """What a ball keeps while it is flagged."""

    k: int
    cells: dict[int, list[int]]
    issued: dict[int, int]
    asked: set[int]
    samples: list[tuple[int, float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One trial: what was played, where, in which phase, and what it may be worth at the most."""

    ball: Ball
    arm: int
    x: float
    phase: str
    ucb: float = math.inf


class Learner:
    """The algorithm. `select` a context's arm, then `reward` the decision, now or later.

    Arms may be added, paused, resumed and retired on the way.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.parameters = config.parameters
        self.catalogue = Catalogue(config.arms)
        self.balls: list[Ball] = []
        self.active: dict[Interval, list[Ball]] = {}
        self.flagged: dict[Interval, list[Ball]] = {}
        self.depth = 0
        root = self._new_ball(Interval(0, 0), list(range(config.arms)))
        self._flag(root)

    @property
    def size(self) -> int:
        """The number of balls in the partition."""
        return len(self.balls) - self.splits

    @property
    def splits(self) -> int:
        """How many balls have been split, or left because their arms have."""
        return sum(ball.phase == "split" for ball in self.balls)

    def select(self, x: float, eligible: Collection[int] | None = None) -> Decision:
        """Section 3: flagged balls first, the widest of them; else the largest UCB.

        Of the balls that hold an arm that may be played, and of their arms, those alone count.
        """
        may_play = self.catalogue.rule(eligible)
        path = [Interval.holding(x, depth=depth) for depth in range(self.depth + 1)]
        for interval in path:
            for ball in self.flagged.get(interval, ()):
                if any(map(may_play, ball.arms)):
                    return self._sample(ball, x, may_play)
        candidates = [
            ball
            for interval in path
            for ball in self.active.get(interval, ())
            if any(map(may_play, ball.arms))
        ]
        if not candidates:
            raise NoArm
        return self._exploit(min(candidates, key=attrgetter("rank")), x, may_play)

    def reward(self, decision: Decision, reward: float) -> None:
        """Section 4: credited to the decision's ball, or to the descendant that took its place."""
        ball, x, arm = decision.ball, decision.x, decision.arm
        if arm in self.catalogue.retired:
            return
        while ball.children is not None:
            ball = ball.children[ball.interval.half_of(x)][arm]
        if ball.flagged is not None:
            self._count_sample(ball, ball.flagged, x, arm, reward)
            return
        ball.n += 1
        ball.total += reward
        self._rank(ball)
        if ball.n >= self.parameters.flag_at(ball.interval.depth):
            self.active[ball.interval].remove(ball)
            self._flag(ball)

    def abandon(self, decision: Decision) -> None:
        """The reward will never come. Nothing was expected of it."""

    def best_mean(self, x: float) -> float:
        """The best mean of a ball at `x`; NaN when none has a reward."""
        path = [Interval.holding(x, depth=depth) for depth in range(self.depth + 1)]
        return max(
            (
                ball.total / ball.n
                for interval in path
                for balls in (self.active, self.flagged)
                for ball in balls.get(interval, ())
                if ball.n
            ),
            default=math.nan,
        )

    # -- the catalogue

    def add_arm(self) -> int:
        """The new arm, which enters as an active ball of its own."""
        arm = self.catalogue.add()
        ball = self._new_ball(Interval(0, 0), [arm])
        self.active.setdefault(ball.interval, []).append(ball)
        return arm

    def pause(self, arm: int) -> None:
        """The arm is no longer played, nor waited for; what is known of it stays."""
        self.catalogue.paused.add(arm)
        self._settle(arm)

    def resume(self, arm: int) -> None:
        """The arm is played again."""
        self.catalogue.paused.discard(arm)
        self._settle(arm)

    def retire(self, arm: int) -> None:
        """The arm leaves its balls for ever, and balls that are empty then leave the partition."""
        self.catalogue.retire(arm)
        self._settle(arm)

    def _settle(self, arm: int) -> None:
        """Brings the balls that hold the arm up to date with what has become of it."""
        for ball in self.balls[:]:
            if arm not in ball.arms or ball.children is not None:
                continue
            if self.catalogue.retired.issuperset(ball.arms):
                phase = self.active if ball.flagged is None else self.flagged
                phase[ball.interval].remove(ball)
                ball.flagged, ball.children = None, ({}, {})
            elif ball.flagged is not None and ball.flagged.cells:
                self._settle_flagged(ball, ball.flagged, arm)

    def _settle_flagged(self, ball: Ball, flagged: Flagged, arm: int) -> None:
        needed = min(flagged.cells[arm]) < flagged.k
        patient = flagged.issued[arm] < self.parameters.issue_limit(flagged.k)
        if needed and patient and self.catalogue.may_play(arm):
            flagged.asked.add(arm)
        else:
            flagged.asked.discard(arm)
        if self._is_full(ball, flagged):
            self._split(ball, flagged)

    # -- the active phase

    def _exploit(self, ball: Ball, x: float, may_play: Callable[[int], bool]) -> Decision:
        arm = self._next_in_turn(ball, may_play)
        if ball.n:
            return Decision(ball, arm, x, "active", ucb=-ball.rank[1])
        ball.selects += 1
        self._rank(ball)
        return Decision(ball, arm, x, "active")

    def _rank(self, ball: Ball) -> None:
        """Smallest first: unrewarded balls, then by UCB, then those whose rewards stay away."""
        if ball.n == 0:
            overdue = ball.selects >= UNREWARDED_SELECTS
            ball.rank = (2 if overdue else 0, ball.selects, ball.id)
        else:
            ucb = self.parameters.ucb(total=ball.total, n=ball.n, width=ball.interval.width)
            ball.rank = (1, -ucb, ball.id)

    def _next_in_turn(self, ball: Ball, may_play: Callable[[int], bool]) -> int:
        position = _first_from(ball, ball.cursor, may_play)
        assert position is not None
        ball.cursor = (position + 1) % len(ball.arms)
        return ball.arms[position]

    # -- the flagged phase

    def _flag(self, ball: Ball) -> None:
        ball.cursor = 0
        k = self.parameters.neighbours_for(arms=len(ball.arms), width=ball.interval.width)
        needy = ball.arms if self.config.needs_samples(len(ball.arms)) else []
        asked = {arm for arm in needy if self.catalogue.may_play(arm)}
        ball.flagged = Flagged(
            k=k,
            cells={arm: [0] * self.parameters.buckets for arm in needy},
            issued=dict.fromkeys(needy, 0),
            asked=asked,
        )
        self.flagged.setdefault(ball.interval, []).append(ball)
        if self._is_full(ball, ball.flagged):
            self._split(ball, ball.flagged)

    def _is_full(self, ball: Ball, flagged: Flagged) -> bool:
        """Nobody is asked any more, and not merely since all its arms are paused."""
        if flagged.asked:
            return False
        return not flagged.cells or any(map(self.catalogue.may_play, ball.arms))

    def _sample(self, ball: Ball, x: float, may_play: Callable[[int], bool]) -> Decision:
        flagged = ball.flagged
        assert flagged is not None
        asked = flagged.asked
        round_robin = self.parameters.sampling == "round_robin"
        start = ball.cursor if round_robin else 0
        position = _first_from(ball, start, lambda arm: arm in asked and may_play(arm))
        if position is None:
            decision = Decision(ball, self._next_in_turn(ball, may_play), x, "flagged")
            # The last arms were set aside by selects alone: this one finds the ball full.
            if self._is_full(ball, flagged):
                self._split(ball, flagged)
            return decision
        arm = ball.arms[position]
        if round_robin:
            ball.cursor = (position + 1) % len(ball.arms)
        flagged.issued[arm] += 1
        if flagged.issued[arm] >= self.parameters.issue_limit(flagged.k):
            flagged.asked.discard(arm)
        return Decision(ball, arm, x, "flagged")

    def _count_sample(
        self, ball: Ball, flagged: Flagged, x: float, arm: int, reward: float
    ) -> None:
        flagged.samples.append((arm, x, reward))
        cells = flagged.cells[arm]
        cells[ball.interval.bucket_of(x, buckets=self.parameters.buckets)] += 1
        if min(cells) >= flagged.k:
            flagged.asked.discard(arm)
        if self._is_full(ball, flagged):
            self._split(ball, flagged)

    # -- the split

    def _split(self, ball: Ball, flagged: Flagged) -> None:
        """Section 5: the children take the ball's place, the left half's first."""
        arms_left = [arm for arm in ball.arms if arm not in self.catalogue.retired]
        position = {arm: place for place, arm in enumerate(arms_left)}
        samples = [
            (position[arm], x, reward) for arm, x, reward in flagged.samples if arm in position
        ]
        halves = sub_partition(
            self.config,
            ball.interval,
            arms=np.array(arms_left),
            k=flagged.k,
            samples=np.array(samples, dtype=SAMPLE),
        )
        self.flagged[ball.interval].remove(ball)
        ball.flagged = None
        ball.children = ({}, {})
        for half, labels, children in zip(ball.interval.halves, halves, ball.children, strict=True):
            clusters: dict[int, list[int]] = {}
            for arm, label in zip(arms_left, labels.tolist(), strict=True):
                clusters.setdefault(label, []).append(arm)
            for arms in clusters.values():
                child = self._new_ball(half, arms)
                self.active.setdefault(half, []).append(child)
                children.update(dict.fromkeys(arms, child))

    def _new_ball(self, interval: Interval, arms: list[int]) -> Ball:
        ball = Ball(id=len(self.balls), interval=interval, arms=arms)
        self._rank(ball)
        self.balls.append(ball)
        self.depth = max(self.depth, interval.depth)
        return ball


def _first_from(ball: Ball, start: int, wanted: Callable[[int], bool]) -> int | None:
    """The first position of a wanted arm, from `start` on and then from the beginning."""
    turns = ((start + step) % len(ball.arms) for step in range(len(ball.arms)))
    return next((turn for turn in turns if wanted(ball.arms[turn])), None)
