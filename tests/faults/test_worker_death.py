"""Workers killed with -9: in the middle of a split, and under load."""

import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis

from service.algorithm import Learner
from service.api.context import clock_ms
from service.splitter import children_of
from service.store import LEASE_MS, Store, Tenant
from tests.support.audit import audit
from tests.support.content import value_of
from tests.support.dying_claimant import STAGED_ALL, STAGED_SOME, STOPS
from tests.support.engine import NOW_MS, Engine, counters_of, learner_for, new_engine, same
from tests.support.load import BROKEN, Client, Load, new_tenants
from tests.support.servers import running_service, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

ROOT = Path(__file__).parents[2]
# No two arms are alike, so the root has 240 children: too many for one step of staging.
WIDE: dict[str, Any] = {
    "arms": 120,
    "preset": "simulation",
    "horizon": 10_000,
    "noise": 0.0,
    "neighbours": 1,
    "cluster_ratio": 0.0,
}
Result = TypeVar("Result")
CHILDREN = 2 * WIDE["arms"]


@dataclass(frozen=True)
class FullRoot:
    """A tenant whose root is full and not split, and a learner after the same trials."""

    engine: Engine
    learner: Learner
    rewards: int

    @property
    def tenant(self) -> Tenant:
        """The tenant."""
        return self.engine.tenant

    def assert_one_split(self, stats: Mapping[str, int], *, rewards: int) -> None:
        """There was one split, it wasted no id, and no reward was lost."""
        assert stats["splits"] == 1
        assert stats["next_ball"] == 1 + CHILDREN
        assert stats["rewards_applied"] == rewards

    async def assert_learners_children(self, store: Store) -> None:
        """The partition is the one that the learner has."""
        expected = [(b.id, b.interval, b.arms) for b in self.learner.balls if b.phase != "split"]
        found = [(b.id, b.interval, b.arms) for b in await store.partition(self.tenant)]
        assert found == expected


async def full_root(store: Store, *, now_ms: int) -> FullRoot:
    """Plays a new tenant, in step with a learner, until its root is due; nobody splits it."""
    engine = await new_engine(store, WIDE)
    engine.clock[0] = now_ms
    learner, rng = learner_for(WIDE), random.Random(1)
    for trial in range(1, 10 * WIDE["arms"]):
        decision = learner.select(rng.random())
        played = await engine.select_only(decision.x)
        assert same(decision, played)
        reward = rng.random()
        learner.reward(decision, reward)
        rewarded = await store.reward(
            engine.tenant, decision_id=played.decision_id, reward=reward, now_ms=now_ms
        )
        assert rewarded.status == "applied"
        if rewarded.due is not None:
            assert rewarded.due == 0
            return FullRoot(engine, learner, rewards=trial)
    raise AssertionError("the root never filled")


def run_on(url: str, steps: Callable[[Store], Awaitable[Result]]) -> Result:
    """Runs the steps to their end in a loop of their own, with a store open."""

    async def run() -> Result:
        store = Store(url)
        try:
            return await steps(store)
        finally:
            await store.close()

    return asyncio.run(run())


@contextmanager
def claimants(
    url: str, roots: Mapping[str, FullRoot], *, now_ms: int
) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """A process for each root, on its way to the split and stopped where the key says.

    They are killed with -9 at the end.
    """
    with ExitStack() as stack:
        processes = {}
        for where, root in roots.items():
            arguments = [url, root.tenant.name, "0", where, str(now_ms)]
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.dying_claimant", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            processes[where] = process
        for where, process in processes.items():
            assert process.stdout is not None
            assert process.stdout.readline().strip() == where
        yield processes


def wake(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Lets the claimant go on to the end; what it says became of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go on\n")
    process.stdin.flush()
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def contents(client: "redis.Redis") -> dict[bytes, Any]:
    """All that the store holds."""
    return {key: value_of(client, key) for key in client.scan_iter(count=1000)}


def test_split_of_a_killed_worker_is_taken_over(store_url: str, tmp_path: Path) -> None:
    """By the first select that a live service gets once the claim has run out."""

    async def prepare(store: Store) -> dict[str, FullRoot]:
        return {where: await full_root(store, now_ms=clock_ms()) for where in STOPS}

    async def verify(store: Store) -> None:
        for root in roots.values():
            await root.assert_learners_children(store)

    roots = run_on(store_url, prepare)
    claimed_ms = clock_ms()
    with claimants(store_url, roots, now_ms=claimed_ms):
        pass
    with running_service(tmp_path, redis_url=store_url) as service:
        client = Client(lambda: service.url)

        def select(root: FullRoot) -> dict[str, Any]:
            return client.insist("/select", {"tenant": root.tenant.name, "context": 0.6})

        def is_split_by_a_select(root: FullRoot) -> bool:
            select(root)
            return service.counters(root.tenant.name)["splits"] > 0

        decisions = {where: select(root) for where, root in roots.items()}
        for root in roots.values():
            wait_for(partial(is_split_by_a_select, root))
        assert clock_ms() >= claimed_ms + LEASE_MS
        run_on(store_url, verify)
        for where, root in roots.items():
            body = {"tenant": root.tenant.name, "decision_id": decisions[where]["decision_id"]}
            assert client.insist("/reward", {**body, "reward": 0.5})["status"] == "applied"
            root.assert_one_split(service.counters(root.tenant.name), rewards=root.rewards + 1)
        client.close()


def test_rewards_that_come_before_the_takeover_count(store_url: str) -> None:
    """In invented time: the samples of a ball whose worker died go on coming in."""

    async def run(store: Store) -> None:
        root = await full_root(store, now_ms=NOW_MS)
        with claimants(store_url, {STAGED_SOME: root}, now_ms=NOW_MS):
            pass
        later_ms = NOW_MS + LEASE_MS
        for now_ms, due in [(NOW_MS, None), (later_ms - 1, None), (later_ms, 0)]:
            root.engine.clock[0] = now_ms
            played = await root.engine.select_only(0.25)
            rewarded = await store.reward(
                root.tenant, decision_id=played.decision_id, reward=0.5, now_ms=now_ms
            )
            assert (rewarded.status, rewarded.ball) == ("applied", 0)
            assert played.due == rewarded.due == due
        await root.engine.splitter.split(root.tenant, ball=0, wait_seconds=30)
        root.assert_one_split(await counters_of(store, root.tenant), rewards=root.rewards + 3)

    run_on(store_url, run)


def test_claimant_that_wakes_after_the_takeover_changes_nothing(
    store_url: str, raw: "redis.Redis"
) -> None:
    """Slow, not dead: it wakes when another has its claim, and again when that has published."""

    async def take_over(store: Store, tenant: Tenant) -> Callable[[], Awaitable[bool]]:
        """Claims and stages in the slow one's place; what is returned publishes."""
        token = secrets.token_hex(8)
        early = await store.claim(tenant, ball=0, token=token, now_ms=NOW_MS + LEASE_MS - 1)
        assert early.status == "busy"
        claim = await store.claim(tenant, ball=0, token=token, now_ms=NOW_MS + LEASE_MS)
        assert claim.record is not None
        arms, samples = await store.read_ball(tenant, ball=0, record=claim.record)
        children = children_of(tenant, record=claim.record, arms=arms, samples=samples)
        assert await store.stage(tenant, ball=0, token=token, children=children) == 1
        return partial(store.publish, tenant, ball=0, token=token, first=1, children=children)

    def woken(process: "subprocess.Popen[str]") -> dict[str, Any]:
        before = contents(raw)
        told = wake(process)
        assert contents(raw) == before
        return told

    async def run(store: Store) -> None:
        roots = {where: await full_root(store, now_ms=NOW_MS) for where in STOPS}
        with claimants(store_url, roots, now_ms=NOW_MS) as processes:
            for where, root in roots.items():
                had_staged = where == STAGED_ALL
                publish = await take_over(store, root.tenant)
                told = woken(processes[where])
                assert told == {"staged": 1 if had_staged else None, "published": False}
                assert await publish()
                # Who asks for what is already so (these ids, published) is told that it is so.
                assert woken(processes[where]) == {"staged": None, "published": had_staged}
                await root.assert_learners_children(store)
                root.assert_one_split(await counters_of(store, root.tenant), rewards=root.rewards)

    run_on(store_url, run)


def test_workers_killed_under_load(store_url: str, raw: "redis.Redis", tmp_path: Path) -> None:
    """One at a time, then all at once; clients notice no more than broken connections."""
    rng = random.Random(2)
    with running_service(tmp_path, redis_url=store_url, workers=3) as service:
        tenants = new_tenants(service)
        first = set(service.workers())
        with Load(service.url, tenants) as load:
            for _ in range(3):
                load.wait_for_trials(30)
                workers = wait_for(lambda: len(found := service.workers()) > 1 and found)
                os.kill(rng.choice(workers), signal.SIGKILL)
            load.wait_for_trials(30)
            for worker in service.workers():
                os.kill(worker, signal.SIGKILL)
            load.wait_for_trials(30)
            wait_for(lambda: len(service.workers()) == len(first))
        assert not first & set(service.workers())
        assert set(load.statuses) == {200, BROKEN}
        load.verify(service)
        assert sum(service.counters(tenant)["splits"] for tenant in tenants) > 5
        assert audit(raw) == len(tenants)


def test_a_worker_that_dies_before_it_answers_its_supervisor_is_replaced(
    store_url: str, tmp_path: Path
) -> None:
    """The supervisor waits half a minute for a worker that is silent, not for one that is dead."""
    with running_service(tmp_path, redis_url=store_url, workers=2) as service:
        victim, other = wait_for(lambda: len(found := service.workers()) == 2 and found)
        os.kill(victim, signal.SIGSTOP)
        threading.Event().wait(1.5)  # it asks its workers twice a second
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: len(set(service.workers()) - {victim, other}) == 1, seconds=15)
        assert other in service.workers()
