"""One tenant and a plain model of it, to which the same is done; what differs fails.

Each outcome is counted in `seen`.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

import redis

from service.embedded import PrivateStore
from service.store import LIVE, PAUSED, RETIRED, Store, Wanted
from tests.model.plain import PlainTenant, plain_partition
from tests.support.audit import audit
from tests.support.engine import learner_for, new_engine, new_name
from tests.support.transfer import export, import_file

Answer = TypeVar("Answer")
WINDOW_SECONDS, RETENTION_SECONDS = 10.0, 5.0
WINDOW_MS, RETENTION_MS = round(1000 * WINDOW_SECONDS), round(1000 * RETENTION_SECONDS)
COMMON = {
    "reward_window_seconds": WINDOW_SECONDS,
    "retention_seconds": RETENTION_SECONDS,
    "log_entries": 100_000,
}
CHANGES = {LIVE: "resumed", PAUSED: "paused", RETIRED: "retired"}


class Both:
    """The engine on a real store, which may be restarted, in invented time; and the model."""

    def __init__(self, private: PrivateStore, body: dict[str, Any], seen: Counter[str]) -> None:
        self.private = private
        self.seen = seen
        self.loop = asyncio.new_event_loop()
        self.client: Any = redis.Redis.from_url(private.url)
        self.client.flushall()
        self.engine = self.run(new_engine(Store(private.url), body | COMMON))
        self.model = PlainTenant(
            learner_for(body),
            window_ms=WINDOW_MS,
            retention_ms=RETENTION_MS,
            default_reward=body["default_reward"],
        )
        self.names: list[str] = []
        self.read = ""

    def end(self) -> None:
        """Nothing more will be done."""
        self.seen["split"] += self.model.splits
        self.run(self.engine.store.close())
        self.loop.close()
        self.client.close()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Sees it through."""
        return self.loop.run_until_complete(work)

    @property
    def now_ms(self) -> int:
        """The invented time."""
        return self.engine.clock[0]

    def wait(self, ms: int) -> None:
        """Time passes."""
        self.engine.clock[0] += ms

    # -- decisions

    def select(self, x: float, eligible: list[int] | None = None) -> str:
        """The decision's id, or "" if no arm may be played."""
        name = f"d{len(self.names)}"
        expected = self.model.select(name, x, eligible, self.now_ms)
        found = self.run(self.engine.try_select(x, decision_id=name, eligible=eligible))
        if expected is None or found is None:
            assert (expected, found) == (None, None)
            self.seen["none_eligible"] += 1
            return ""
        mine = (expected.arm, expected.ball.id, expected.phase)
        assert mine == (found.arm, found.ball, found.phase)
        again = self.run(self.engine.try_select(x, decision_id=name))
        assert again is not None
        assert (again.arm, again.ball, again.phase) == mine
        self.seen[f"selected, {expected.phase}"] += 1
        self.names.append(name)
        return name

    def select_elsewhere(self, name: str, x: float) -> None:
        """An id that is remembered, with another context."""
        wanted = Wanted(decision_id=name, x=x)
        select = self.engine.store.select(self.engine.tenant, wanted, now_ms=self.now_ms)
        assert self.run(select).status == "conflict"
        self.seen["another context"] += 1

    def reward(self, name: str, value: float) -> str:
        """The status of the answer."""
        expected = self.model.reward(name, value, self.now_ms)
        assert self.run(self.engine.reward(name, value)).status == expected
        self.seen[expected] += 1
        return expected

    def censor(self, name: str) -> str:
        """The status of the answer."""
        expected = self.model.censor(name, self.now_ms)
        store, tenant = self.engine.store, self.engine.tenant
        status = self.run(store.censor(tenant, decision_id=name, now_ms=self.now_ms))
        assert status == expected
        self.seen[f"censor: {status}"] += 1
        return status

    def look(self, name: str) -> None:
        """What is shown of a decision."""
        found = self.model.decisions[name]
        store, tenant = self.engine.store, self.engine.tenant
        read = self.run(store.decisions.read(tenant, name, now_ms=self.now_ms))
        assert (read is not None) == self.model.remembers(name, self.now_ms)
        if read is not None:
            record, _ = read
            assert (record.state, record.reward) == (found.state, found.reward)
            assert (record.arm, record.x) == (found.learned.arm, found.learned.x)

    def set_default(self, default: float | None) -> None:
        """Changes the tenant's default reward."""
        directory, changed = self.engine.store.directory, {"default_reward": default}
        self.run(directory.revise(self.engine.tenant, settings=changed, now_ms=self.now_ms))
        self.run(self.engine.refresh())
        self.model.default_reward = default

    def close(self) -> None:
        """All that is due is closed, in the order that the log tells."""
        for entry, _ in self._new_log_entries():  # of the calls before
            self.read = entry
        self.run(self.engine.close_all())
        for entry, fields in self._new_log_entries():
            state = self.model.close(fields["id"])
            assert fields["event"] == state
            self.seen[state] += 1
            self.read = entry
        slot_ms = self.engine.tenant.slot_ms
        for found in self.model.decisions.values():
            over = found.at_ms // slot_ms * slot_ms + slot_ms + WINDOW_MS
            assert found.state != "open" or over > self.now_ms

    def _new_log_entries(self) -> list[tuple[str, dict[str, str]]]:
        store, tenant = self.engine.store, self.engine.tenant
        return self.run(store.decisions.log(tenant, after=self.read, count=100_000))

    # -- arms

    def arms(self, *states: int) -> list[int]:
        """The arms that are in one of these states."""
        tenant = self.engine.tenant
        return [arm for arm in tenant.arms.values() if tenant.arm_states[arm] in states]

    def change(self, arm: int, state: int) -> None:
        """Pauses, resumes or retires an arm."""
        learner = self.model.learner
        {LIVE: learner.resume, PAUSED: learner.pause, RETIRED: learner.retire}[state](arm)
        self.run(self.engine.change_arm(arm, state))
        self.seen[CHANGES[state]] += 1

    def add_arm(self) -> None:
        """The next one."""
        number = self.model.learner.add_arm()
        self.run(self.engine.add_arm(f"new {number}"))
        assert self.engine.tenant.arms[f"new {number}"] == number
        self.seen["added"] += 1

    # -- what must not matter

    def flush_steps(self) -> None:
        """The store forgets all steps."""
        self.client.function_flush()
        self.seen["flushed"] += 1

    def another_worker(self) -> None:
        """It takes over, knowing nothing."""

        async def reopen() -> None:
            await self.engine.store.close()
            self.engine.reopen(Store(self.private.url))
            await self.engine.refresh()

        self.run(reopen())
        self.seen["another worker"] += 1

    def restart(self) -> None:
        """The store's process ends, and another reads what it left on disk."""
        self.client.close()
        self.private.stop()
        self.private.start()
        self.client = redis.Redis.from_url(self.private.url)
        self.another_worker()
        self.seen["restarted"] += 1

    def move(self) -> None:
        """The tenant goes on under another name, from an export of it."""

        async def move() -> None:
            store, old = self.engine.store, self.engine.tenant
            file = await export(store, old)
            self.engine.tenant = await import_file(store, new_name(), file)
            await store.directory.delete(old.name, incarnation=old.incarnation)

        self.run(move())
        self.read = ""
        self.seen["moved"] += 1

    # -- what must hold

    def check(self) -> None:
        """The store is consistent, and knows what the model knows."""
        assert audit(self.client) == 1
        balls = self.run(self.engine.store.partition(self.engine.tenant))
        found = [(b.id, b.interval, b.phase, tuple(b.arms), b.n, b.mean) for b in balls]
        assert sorted(found) == plain_partition(self.model.learner)
