"""Any sequence of calls, against a plain model of the whole tenant, with the audits after each.

The engine runs on a real store in invented time; a step that the model and the engine see
differently, or that leaves the store inconsistent, fails.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from service.store import LIVE, PAUSED, RETIRED, Store
from tests.model.plain import PlainTenant
from tests.support.audit import audit
from tests.support.engine import Engine, learner_for, new_engine, new_name
from tests.support.plays import contexts
from tests.support.transfer import export, import_file

Answer = TypeVar("Answer")
WINDOW_SECONDS, RETENTION_SECONDS = 10.0, 5.0
COMMON = {
    "reward_window_seconds": WINDOW_SECONDS,
    "retention_seconds": RETENTION_SECONDS,
    "log_entries": 100_000,
}
BODIES: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": 4},
    "learned": {
        "preset": "simulation",
        "arms": 4,
        "horizon": 1000,
        "noise": 0.05,
        "neighbours": 1,
        "buckets": 2,
        "flag_coefficient": 0.05,
        "patience": 2,
    },
    "none": {
        "preset": "simulation",
        "arms": 3,
        "horizon": 100,
        "noise": 0.1,
        "flag_coefficient": 0.05,
        "similarity": {"kind": "none"},
    },
}
EXAMPLES, STEPS = 14, 40
rewards = st.sampled_from([0.0, 0.25, 0.5, 1.0])


class TenantMachine(RuleBasedStateMachine):
    """One tenant, and the model beside it."""

    url: str
    body: dict[str, Any]
    decisions = Bundle("decisions")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.client: Any = redis.Redis.from_url(self.url)
        self.client.flushall()
        self.read = ""
        self.closed = 0

    def teardown(self) -> None:
        self.run(self.engine.store.close())
        self.loop.close()
        self.client.close()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(work)

    @initialize(default=st.sampled_from([None, 0.0, 0.5]))
    def create(self, default: float | None) -> None:
        body = self.body | COMMON | {"default_reward": default}
        self.engine: Engine = self.run(new_engine(Store(self.url), body))
        self.model = PlainTenant(
            learner_for(body),
            window_ms=round(1000 * WINDOW_SECONDS),
            retention_ms=round(1000 * RETENTION_SECONDS),
            default_reward=default,
        )

    @property
    def now_ms(self) -> int:
        return self.engine.clock[0]

    # -- decisions

    @rule(target=decisions, x=contexts, data=st.data())
    def select(self, x: float, data: st.DataObject) -> Any:
        arms = list(self.engine.tenant.arms.values())
        eligible = None
        restricted: bool = data.draw(st.booleans(), "restricted")
        if arms and restricted:
            named = data.draw(st.sets(st.sampled_from(arms), min_size=1), "arms")
            eligible = sorted(arm for arm in named if self.engine.tenant.arm_states[arm] == LIVE)
        name = f"d{len(self.model.decisions)}-{self.now_ms}-{self.closed}"
        self.closed += 1
        expected = self.model.select(name, x, eligible, self.now_ms)
        found = self.run(self.engine.try_select(x, decision_id=name, eligible=eligible))
        if expected is None or found is None:
            assert expected is None
            assert found is None
            return multiple()
        mine = (expected.arm, expected.ball.id, expected.phase)
        assert mine == (found.arm, found.ball, found.phase)
        again = self.run(self.engine.try_select(x, decision_id=name))
        assert again is not None
        assert (again.arm, again.ball, again.phase) == mine
        return name

    @rule(name=decisions, value=rewards)
    def reward(self, name: str, value: float) -> None:
        expected = self.model.reward(name, value, self.now_ms)
        assert self.run(self.engine.reward(name, value)).status == expected

    @rule(name=decisions)
    def censor(self, name: str) -> None:
        expected = self.model.censor(name, self.now_ms)
        store, tenant = self.engine.store, self.engine.tenant
        status = self.run(store.censor(tenant, decision_id=name, now_ms=self.now_ms))
        assert status == expected

    @rule(name=decisions)
    def look(self, name: str) -> None:
        found = self.model.decisions.get(name)
        store, tenant = self.engine.store, self.engine.tenant
        read = self.run(store.decisions.read(tenant, name, now_ms=self.now_ms))
        remembered = found and self.now_ms <= found.at_ms + 1000 * (
            WINDOW_SECONDS + RETENTION_SECONDS
        )
        assert (read is None) == (not remembered)
        if read is not None and found is not None:
            record, _ = read
            assert (record.state, record.reward) == (found.state, found.reward)
            assert (record.arm, record.x) == (found.learned.arm, found.learned.x)

    @rule(ms=st.sampled_from([1, 200, 3000, 9000, 16000]))
    def wait(self, ms: int) -> None:
        self.engine.clock[0] += ms

    @rule()
    def close(self) -> None:
        """All that is due is closed, in the order that the log tells."""
        self.check_log()
        self.run(self.engine.close_all())
        for entry, fields in self.new_log_entries():
            assert fields["event"] == self.model.close(fields["id"])
            self.read = entry
        slot_ms = self.engine.tenant.slot_ms
        for found in self.model.decisions.values():
            over = found.at_ms // slot_ms * slot_ms + slot_ms + 1000 * WINDOW_SECONDS
            assert found.state != "open" or over > self.now_ms

    # -- arms

    @precondition(lambda self: self.engine.tenant and len(self.engine.tenant.arm_names) < 9)
    @rule()
    def add_arm(self) -> None:
        number = self.model.learner.add_arm()
        self.run(self.engine.add_arm(f"new {number}"))
        assert self.engine.tenant.arms[f"new {number}"] == number

    @rule(data=st.data())
    def change_arm(self, data: st.DataObject) -> None:
        arms = list(self.engine.tenant.arms.values())
        if not arms:
            return
        arm = data.draw(st.sampled_from(arms), "arm")
        state = data.draw(st.sampled_from([LIVE, PAUSED, PAUSED, RETIRED]), "state")
        if self.engine.tenant.arm_states[arm] == state:
            return
        learner = self.model.learner
        {LIVE: learner.resume, PAUSED: learner.pause, RETIRED: learner.retire}[state](arm)
        self.run(self.engine.change_arm(arm, state))

    # -- what must not matter

    @rule()
    def flush_scripts(self) -> None:
        self.client.script_flush()

    @rule()
    def restart(self) -> None:
        """Another worker takes over, knowing nothing."""

        async def reopen() -> None:
            await self.engine.store.close()
            self.engine.reopen(Store(self.url))
            await self.engine.refresh()

        self.run(reopen())

    @rule()
    def move(self) -> None:
        """The tenant goes on under another name, from an export of it."""

        async def move() -> None:
            store, old = self.engine.store, self.engine.tenant
            file = await export(store, old)
            self.engine.tenant = await import_file(store, new_name(), file)
            await store.directory.delete(old.name, incarnation=old.incarnation)

        self.run(move())
        self.read = ""
        self.check_log()

    # -- what must hold

    def new_log_entries(self) -> list[tuple[str, dict[str, str]]]:
        store, tenant = self.engine.store, self.engine.tenant
        return self.run(store.decisions.log(tenant, after=self.read, count=100_000))

    def check_log(self) -> None:
        """Skips what the calls themselves have logged."""
        for entry, _ in self.new_log_entries():
            self.read = entry

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "engine"):
            return
        assert audit(self.client) == 1
        partition = {
            (ball.id, ball.interval, ball.phase, tuple(ball.arms))
            for ball in self.run(self.engine.store.partition(self.engine.tenant))
        }
        assert partition == self.expected_partition()

    def expected_partition(self) -> set[tuple[Any, ...]]:
        learner = self.model.learner
        retired = learner.catalogue.retired
        if hasattr(learner, "balls"):
            return {
                (
                    ball.id,
                    ball.interval,
                    ball.phase,
                    tuple(arm for arm in ball.arms if arm not in retired),
                )
                for ball in learner.balls
                if ball.phase != "split"
            }
        balls = {
            (ball.id, ball.interval, "active", (ball.arm,))
            for curve in learner.curves.values()
            for ball in curve.balls
        }
        arms = [arm for arm in range(learner.catalogue.size) if arm not in retired]
        untried = tuple(arm for arm in arms if arm not in learner.curves)
        return balls | ({(0, (0, 0), "flagged", untried)} if untried else set())


@pytest.mark.parametrize("preset", BODIES)
def test_any_sequence_of_calls(store_url: str, preset: str) -> None:
    """Against the model, with all invariants after each step."""
    machine = type("Machine", (TenantMachine,), {"url": store_url, "body": BODIES[preset]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
