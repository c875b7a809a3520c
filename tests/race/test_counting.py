"""Races, proven by counting: nothing is lost, nothing is counted twice."""

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

import redis

from service.api.schemas import TenantConfig
from service.errors import UnknownTenant
from service.splitter import Splitter
from service.store import Store, Wanted, new_decision_id
from service.store.keys import DELETIONS, REGISTRY
from tests.support.engine import NOW_MS, counters_of, engine, new_engine, new_name
from tests.support.steps import run_step

BODY: dict[str, Any] = {
    "arms": 20,
    "preset": "simulation",
    "horizon": 10_000,
    "noise": 0.1,
    "neighbours": 2,
    "flag_coefficient": 0.05,
}
PROCESSES, CLIENTS, TRIALS = 4, 16, 12


async def _trials(url: str, name: str, clients: int) -> list[tuple[str, str]]:
    """Each client selects and rewards, several in flight at once; the splits go on meanwhile."""
    store = Store(url)
    splitter = Splitter(store, clock_ms=lambda: NOW_MS)
    tenant = await store.directory.read(name)

    async def client() -> list[tuple[str, str]]:
        done = []
        for _ in range(TRIALS):
            x = secrets.randbelow(10**6) / 10**6
            decision_id = new_decision_id(NOW_MS)
            wanted = Wanted(decision_id=decision_id, x=x)
            selected = await store.select(tenant, wanted, now_ms=NOW_MS)
            assert selected is not None
            rewarded = await store.reward(tenant, decision_id=decision_id, reward=x, now_ms=NOW_MS)
            for due in (selected.due, rewarded.due):
                if due is not None:
                    await splitter.split(tenant, ball=due, wait_seconds=None)
            done.append((decision_id, rewarded.status))
        return done

    try:
        results = await asyncio.gather(*(client() for _ in range(clients)))
        await splitter.close()
        return [item for result in results for item in result]
    finally:
        await store.close()


def run_trials(url: str, name: str, clients: int) -> list[tuple[str, str]]:
    """For a process of its own."""
    return asyncio.run(_trials(url, name, clients))


def test_64_clients_in_four_processes_lose_and_double_nothing(store_url: str) -> None:
    """The audit afterwards holds every ball and counter to the rewards applied."""

    async def create() -> str:
        async with engine(store_url, BODY) as made:
            return made.tenant.name

    async def stats(name: str) -> Mapping[str, int]:
        store = Store(store_url)
        try:
            return await counters_of(store, await store.directory.read(name))
        finally:
            await store.close()

    name = asyncio.run(create())
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(run_trials, store_url, name, CLIENTS) for _ in range(PROCESSES)]
        done = [item for run in runs for item in run.result()]
    counters = asyncio.run(stats(name))
    wanted = PROCESSES * CLIENTS * TRIALS
    assert len({decision_id for decision_id, _ in done}) == wanted
    assert Counter(status for _, status in done) == {"applied": wanted}
    assert counters["rewards_applied"] == wanted
    assert counters["trials_active"] + counters["trials_flagged"] == wanted
    assert counters["splits"] >= 5


def test_one_decision_rewarded_100_times_at_once_counts_once(store_url: str) -> None:
    """Half of them with another value: those conflict, or it is theirs that stands."""

    async def run() -> Counter[str]:
        async with engine(store_url, BODY) as made:
            selected = await made.select(0.3)
            rewards = [
                made.store.reward(
                    made.tenant,
                    decision_id=selected.decision_id,
                    reward=float(attempt % 2),
                    now_ms=NOW_MS,
                )
                for attempt in range(100)
            ]
            statuses = Counter(answer.status for answer in await asyncio.gather(*rewards))
            counters = await counters_of(made.store, made.tenant)
            assert counters["rewards_applied"] == 1
            return statuses

    assert asyncio.run(run()) == {"applied": 1, "duplicate": 49, "conflict": 50}


def test_one_decision_id_selected_100_times_at_once_is_one_decision(store_url: str) -> None:
    """All get the same answer."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            answers = await asyncio.gather(
                *(made.select(0.3, decision_id="mine") for _ in range(100))
            )
            assert len({(a.arm, a.ball, a.at_ms) for a in answers}) == 1
            counters = await counters_of(made.store, made.tenant)
            assert counters["trials_flagged"] == 1

    asyncio.run(run())


def test_20_workers_that_see_suff_data_make_one_split(store_url: str) -> None:
    """Each worker is a store connection and a splitter of its own."""

    async def run() -> None:
        body = BODY | {"arms": 3}
        stores = [Store(store_url) for _ in range(20)]
        try:
            made = await new_engine(stores[0], body)
            due = None
            while due is None:
                selected = await made.select_only(0.5)
                rewarded = await made.store.reward(
                    made.tenant, decision_id=selected.decision_id, reward=0.5, now_ms=NOW_MS
                )
                due = rewarded.due
            splitters = [Splitter(store, clock_ms=lambda: NOW_MS) for store in stores]
            await asyncio.gather(
                *(s.split(made.tenant, ball=due, wait_seconds=None) for s in splitters)
            )
            counters = await counters_of(made.store, made.tenant)
            assert (counters["splits"], counters["flagged"]) == (1, 0)
            assert counters["next_ball"] == 1 + counters["active"], "ids were wasted"
        finally:
            for store in stores:
                await store.close()

    asyncio.run(run())


def test_creations_racing_deletions_leave_nothing_behind(
    store_url: str, raw: "redis.Redis"
) -> None:
    """Each creation gets a tenant, its own or one that stands; the last deletion takes all."""

    async def run() -> None:
        store = Store(store_url)
        name, settings = new_name(), TenantConfig.model_validate(BODY).settings()

        async def create() -> None:
            for _ in range(60):
                await store.directory.create(
                    name, body_digest="", settings=settings, key_hash="", now_ms=NOW_MS
                )

        async def delete() -> None:
            for _ in range(60):
                with suppress(UnknownTenant):
                    tenant = await store.directory.read(name)
                    await store.directory.delete(tenant.name, incarnation=tenant.incarnation)

        try:
            await asyncio.gather(create(), create(), delete(), delete())
            await delete()
            assert await store.directory.names() == []
        finally:
            await store.close()

    asyncio.run(run())
    assert set(raw.keys()) <= {REGISTRY.encode()}


def test_a_deletion_that_was_cut_short_is_finished_at_the_next_start(
    store_url: str, raw: "redis.Redis"
) -> None:
    """Cut after the tenant became unknown, before its balls were swept."""

    async def run() -> None:
        async with engine(store_url, BODY | {"similarity": {"kind": "none"}}) as made:
            key, incarnation = made.tenant.key, made.tenant.incarnation
            raw.sadd(DELETIONS, f"{made.tenant.name} {incarnation}")
            run_step(raw, "delete", key, incarnation)
            assert raw.dbsize() > 20
            await made.store.directory.finish_deletions()

    asyncio.run(run())
    assert raw.keys() == []


def test_a_deletion_that_was_cut_short_while_it_swept_is_finished(
    store_url: str, raw: "redis.Redis"
) -> None:
    """The curves of some arms are gone, the next sweep starts at the first arm again."""

    async def run() -> None:
        async with engine(store_url, {"arms": 30, "noise": 1e-5, "horizon": 10**6}) as made:
            chance = random.Random(0)
            for _ in range(600):
                selected = await made.select(chance.random())
                await made.reward(selected.decision_id, chance.random() / 2)
            key, incarnation = made.tenant.key, made.tenant.incarnation
            raw.unlink(*raw.keys("*:decisions:*"))
            raw.sadd(DELETIONS, f"{made.tenant.name} {incarnation}")
            run_step(raw, "delete", key, incarnation)
            status, _ = run_step(raw, "sweep", key, incarnation, 0)
            assert status == b"more"
            await made.store.directory.finish_deletions()

    asyncio.run(run())
    assert raw.keys() == []


def test_a_partition_read_while_balls_split_is_whole(store_url: str) -> None:
    """Read in portions under load, it still covers every arm's contexts exactly once."""

    async def run() -> int:
        async with engine(store_url, BODY | {"arms": 50, "similarity": {"kind": "none"}}) as made:
            playing = asyncio.create_task(_trials(store_url, made.tenant.name, 16))
            reads = 0
            while not playing.done():
                balls = await made.store.partition(made.tenant)
                widths: Counter[int] = Counter()
                for ball in balls:
                    for arm in ball.arms:
                        widths[arm] += 2 ** (20 - ball.interval.depth)
                assert widths == dict.fromkeys(range(50), 2**20)
                reads += 1
            await playing
            return reads

    assert asyncio.run(run()) > 3
