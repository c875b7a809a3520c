"""Everything that may be done to a tenant, in any order.

Hypothesis shuffles the operations as a deck of cards, from which one rule takes them: where each is
a rule of its own, most of them are switched off in most examples, and what needs several of them
never comes about.
"""

from collections import Counter
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service.embedded import PrivateStore
from service.store import LIVE, PAUSED, RETIRED
from tests.model.both import WINDOW_MS, Both
from tests.support.plays import contexts

MOST_ARMS = 12
# How often each is done in an example.
OPERATIONS = {
    "trial": 7,
    "select": 6,
    "select_none": 1,
    "select_elsewhere": 1,
    "reward": 5,
    "reward_twice": 2,
    "reward_again": 2,
    "reward_too_late": 1,
    "reward_retired": 1,
    "reward_unknown": 1,
    "censor": 2,
    "censor_at_once": 1,
    "expire": 1,
    "look": 2,
    "wait": 4,
    "add_arm": 2,
    "pause": 3,
    "resume": 2,
    "retire": 1,
    # Nothing is drawn for these.
    "close": 3,
    "flush_steps": 2,
    "another_worker": 1,
    "restart": 1,
    "move": 2,
}
DECK = [name for name, times in OPERATIONS.items() for _ in range(times)]
rewards = st.sampled_from([0.0, 0.25, 0.5, 1.0])
defaults = st.sampled_from([0.5, 0.0, None])


class TenantMachine(RuleBasedStateMachine):
    """Draws what is done, and with what."""

    private: ClassVar[PrivateStore]
    body: ClassVar[dict[str, Any]]
    seen: ClassVar[Counter[str]]
    both: Both
    data: st.DataObject

    @initialize(
        default=defaults,
        first=st.lists(st.tuples(contexts, rewards), min_size=6, max_size=12),
        deck=st.permutations(DECK),
    )
    def create(
        self, default: float | None, first: list[tuple[float, float]], deck: list[str]
    ) -> None:
        self.both = Both(self.private, self.body | {"default_reward": default}, self.seen)
        self.deck = deck
        for x, value in first:
            self.both.reward(self.both.select(x), value)

    @rule(data=st.data())
    def operate(self, data: st.DataObject) -> None:
        self.data, operation = data, self.deck.pop()
        note(operation)
        (getattr(self, operation, None) or getattr(self.both, operation))()

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "both"):
            self.both.check()

    def teardown(self) -> None:
        if hasattr(self, "both"):
            self.both.end()

    def context(self) -> float:
        return self.data.draw(contexts, "x")

    def value(self) -> float:
        return self.data.draw(rewards, "reward")

    def one_of(self, names: list[Any]) -> Any:
        return self.data.draw(st.sampled_from(names))

    # -- selects

    def select(self) -> None:
        arms, eligible = self.both.arms(LIVE, PAUSED), None
        if arms and self.one_of([False, True]):
            named = self.data.draw(st.sets(st.sampled_from(arms), min_size=1), "arms")
            eligible = sorted(named.intersection(self.both.arms(LIVE)))
        self.both.select(self.context(), eligible)

    def select_none(self) -> None:
        """Every arm that is eligible is paused."""
        assert self.both.select(self.context(), []) == ""

    def select_elsewhere(self) -> None:
        """At another context, a decision that is remembered."""
        model, now_ms = self.both.model, self.both.now_ms
        places = {
            name: 1.0 - model.decisions[name].learned.x
            for name in self.both.names
            if model.remembers(name, now_ms)
        }
        others = [(name, x) for name, x in places.items() if x != 0.5]
        if others:
            self.both.select_elsewhere(*self.one_of(others))

    # -- what becomes of them

    def in_state(self, *, is_open: bool) -> list[str]:
        decisions = self.both.model.decisions
        return [name for name in self.both.names if (decisions[name].state == "open") == is_open]

    def trial(self) -> None:
        if name := self.both.select(self.context()):
            self.both.reward(name, self.value())

    def reward(self) -> None:
        """One that is open, perhaps overdue."""
        if waiting := self.in_state(is_open=True):
            self.both.reward(self.one_of(waiting), self.value())

    def reward_twice(self) -> None:
        """With the same value, then with another."""
        if name := self.both.select(self.context()):
            value = self.value()
            given = [self.both.reward(name, each) for each in (value, value, value + 1)]
            assert given == ["applied", "duplicate", "conflict"]
            assert self.both.censor(name) == "conflict"

    def reward_again(self) -> None:
        """One that is closed, perhaps forgotten."""
        if closed := self.in_state(is_open=False):
            self.both.reward(self.one_of(closed[-10:]), self.value())

    def reward_too_late(self) -> None:
        if name := self.both.select(self.context()):
            self.both.wait(WINDOW_MS + 1)
            assert self.both.reward(name, self.value()) == "late"
            assert self.both.censor(name) == "late"

    def reward_retired(self) -> None:
        if name := self.both.select(self.context()):
            self.both.change(self.both.model.decisions[name].learned.arm, RETIRED)
            assert self.both.reward(name, self.value()) == "ignored"

    def reward_unknown(self) -> None:
        assert self.both.reward("nobody", self.value()) == "unknown_decision"

    def censor(self) -> None:
        if self.both.names:
            self.both.censor(self.one_of(self.both.names[-10:]))

    def censor_at_once(self) -> None:
        if name := self.both.select(self.context()):
            assert self.both.censor(name) == "censored"
            assert self.both.reward(name, self.value()) == "censored"

    def expire(self) -> None:
        """The window of all that is open is over, with a default reward and without one."""
        for default, state in ((0.25, "defaulted"), (None, "expired")):
            self.both.set_default(default)
            name = self.both.select(self.context())
            self.both.wait(WINDOW_MS + self.both.engine.tenant.slot_ms)
            self.both.close()
            assert not name or self.both.model.decisions[name].state == state
        self.both.set_default(self.data.draw(defaults, "default"))

    def look(self) -> None:
        if self.both.names:
            self.both.look(self.one_of(self.both.names))

    def wait(self) -> None:
        self.both.wait(self.one_of([1, 200, 1000, 3000, 16000]))

    # -- arms

    def add_arm(self) -> None:
        if len(self.both.engine.tenant.arm_names) < MOST_ARMS:
            self.both.add_arm()

    def change(self, arms: list[int], state: int) -> None:
        if arms:
            self.both.change(self.one_of(arms), state)

    def pause(self) -> None:
        self.change(self.both.arms(LIVE), PAUSED)

    def resume(self) -> None:
        self.change(self.both.arms(PAUSED), LIVE)

    def retire(self) -> None:
        self.change(self.both.arms(LIVE, PAUSED), RETIRED)
