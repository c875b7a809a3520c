"""What a tenant must do, in plain Python: the sequential learner, and a dictionary of decisions."""

from dataclasses import dataclass, field
from typing import Any

from service.algorithm import Learner, NoArm


@dataclass
class PlainDecision:
    """A decision, and what has become of it."""

    learned: Any  # the learner's own
    at_ms: int
    state: str = "open"
    reward: float | None = None


@dataclass
class PlainTenant:
    """The learner and its ledger; times are in milliseconds."""

    learner: Any
    window_ms: int
    retention_ms: int
    default_reward: float | None
    decisions: dict[str, PlainDecision] = field(default_factory=dict)

    def select(self, decision_id: str, x: float, eligible: list[int] | None, now_ms: int) -> Any:
        """The learner's decision; `None` if no arm may be played."""
        try:
            decision = self.learner.select(x, eligible)
        except NoArm:
            return None
        self.decisions[decision_id] = PlainDecision(decision, now_ms)
        return decision

    def reward(self, decision_id: str, reward: float, now_ms: int) -> str:
        """The status of the answer, as DESIGN has it."""
        found = self._remembered(decision_id, now_ms)
        if found is None:
            return "unknown_decision"
        if found.state == "rewarded":
            return "duplicate" if found.reward == reward else "conflict"
        if found.state == "censored":
            return "censored"
        if found.state != "open" or now_ms > found.at_ms + self.window_ms:
            return "late"
        if found.learned.arm in self.learner.catalogue.retired:
            return "ignored"
        self.learner.reward(found.learned, reward)
        found.state, found.reward = "rewarded", reward
        return "applied"

    def censor(self, decision_id: str, now_ms: int) -> str:
        """The status of the answer."""
        found = self._remembered(decision_id, now_ms)
        if found is None:
            return "unknown_decision"
        if found.state == "censored":
            return "censored"
        if found.state in ("rewarded", "defaulted"):
            return "conflict"
        if found.state == "expired" or now_ms > found.at_ms + self.window_ms:
            return "late"
        self.learner.abandon(found.learned)
        found.state = "censored"
        return "censored"

    def close(self, decision_id: str) -> str:
        """The window is over: the decision's state then."""
        found = self.decisions[decision_id]
        assert found.state == "open"
        retired = found.learned.arm in self.learner.catalogue.retired
        if self.default_reward is None or retired:
            self.learner.abandon(found.learned)
            found.state = "expired"
        else:
            self.learner.reward(found.learned, self.default_reward)
            found.state, found.reward = "defaulted", self.default_reward
        return found.state

    def remembers(self, decision_id: str, now_ms: int) -> bool:
        """Whether the decision is within its retention."""
        return self._remembered(decision_id, now_ms) is not None

    @property
    def splits(self) -> int:
        """So often has a ball been split."""
        if isinstance(self.learner, Learner):
            return sum(ball.phase == "split" for ball in self.learner.balls)
        return int(self.learner.splits)

    def _remembered(self, decision_id: str, now_ms: int) -> PlainDecision | None:
        found = self.decisions.get(decision_id)
        if found is None or now_ms > found.at_ms + self.window_ms + self.retention_ms:
            return None
        return found


def plain_partition(learner: Any) -> list[tuple[Any, ...]]:
    """Every ball: id, interval, phase, arms, n and mean, by id."""
    retired = learner.catalogue.retired
    if isinstance(learner, Learner):
        return [
            (
                ball.id,
                ball.interval,
                ball.phase,
                tuple(arm for arm in ball.arms if arm not in retired),
                ball.n,
                ball.total / ball.n if ball.n else None,
            )
            for ball in learner.balls
            if ball.phase != "split"
        ]
    balls = [
        (
            ball.id,
            ball.interval,
            "active",
            (arm,),
            round(ball.counts[0] + ball.counts[1]),
            ball.mean if curve.rewards else None,
        )
        for arm, curve in learner.curves.items()
        for ball in curve.balls
    ]
    kept = (arm for arm in range(learner.catalogue.size) if arm not in retired)
    untried = tuple(arm for arm in kept if arm not in learner.curves)
    root = [(0, (0, 0), "flagged", untried, 0, None)] if untried else []
    return sorted(root + balls)
