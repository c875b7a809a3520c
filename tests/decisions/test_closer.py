"""The closer, where something is wrong with one of the tenants."""

import asyncio
from typing import Any

import pytest

from service.closer import Closer
from service.store import RETIRED, keys
from service.store.decisions import Closed
from tests.support.engine import NOW_MS, Engine, counters_of, engine, new_engine
from tests.support.steps import run_step

BODY: dict[str, Any] = {"arms": 2, "reward_window_seconds": 1, "default_reward": 0.5}
IN_TIME_SECONDS = 5


async def close(made: Engine) -> None:
    """One round of a new closer."""
    closer = Closer(made.store, made.splitter, clock_ms=lambda: made.clock[0])
    async with asyncio.timeout(IN_TIME_SECONDS):
        await closer.close_all()


def test_a_deletion_that_was_cut_short_keeps_no_closer_busy(store_url: str, raw: Any) -> None:
    """The tenant is unknown, but still on the list, with decisions that are due."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            other = await new_engine(made.store, BODY)
            for one in (made, other):
                await one.select(0.3)
            name, incarnation = made.tenant.name, made.tenant.incarnation
            raw.sadd(keys.DELETIONS, f"{name} {incarnation}")
            run_step(raw, "delete", made.tenant.key, incarnation)
            made.clock[0] += 5000
            await close(made)
            counters = await counters_of(made.store, other.tenant)
            assert counters["rewards_defaulted"] == 1
            await made.store.directory.finish_deletions()

    asyncio.run(run())


def test_a_creation_that_was_cut_short_keeps_no_decision_open(store_url: str, raw: Any) -> None:
    """A repeat of it wrote its own incarnation to the list, and went no further."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            await made.select(0.3)
            raw.hset(keys.REGISTRY, made.tenant.name, "0123456789ab")
            made.clock[0] += 5000
            await close(made)
            counters = await counters_of(made.store, made.tenant)
            assert counters["rewards_defaulted"] == 1
            raw.hset(keys.REGISTRY, made.tenant.name, made.tenant.incarnation)

    asyncio.run(run())


def test_a_tenant_that_cannot_be_closed_does_not_stop_the_others(store_url: str, raw: Any) -> None:
    """Whatever the order in which they come."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            engines = [made, *[await new_engine(made.store, BODY) for _ in range(4)]]
            for one in engines:
                await one.select(0.3)
            broken = engines[2]
            slot = str(NOW_MS // broken.tenant.slot_ms)
            decisions = keys.derived(broken.tenant.base, "decisions", slot)
            raw.hset(decisions, "no record", "at all")
            made.clock[0] += 5000
            await close(made)
            for one in engines:
                counters = await counters_of(made.store, one.tenant)
                assert counters["rewards_defaulted"] == 1 or one is broken
            raw.hdel(decisions, "no record")
            await close(made)
            counters = await counters_of(made.store, broken.tenant)
            assert counters["rewards_defaulted"] == 1

    asyncio.run(run())


def test_decisions_that_are_added_while_their_slot_is_closed_are_closed_too(
    store_url: str,
) -> None:
    """By a worker whose clock is behind."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            for _ in range(700):
                await made.select(0.3)
            slot, cursor, closed = "", "0", Closed(True)
            while cursor == "0":
                closed = await made.store.decisions.close(
                    made.tenant, now_ms=NOW_MS + 5000, slot=slot, cursor=cursor
                )
                assert closed.more
                slot, cursor = closed.slot, closed.cursor
            for _ in range(100):
                await made.select(0.3)
            while closed.more:
                closed = await made.store.decisions.close(
                    made.tenant, now_ms=NOW_MS + 5000, slot=slot, cursor=cursor
                )
                slot, cursor = closed.slot, closed.cursor
            counters = await counters_of(made.store, made.tenant)
            assert counters["rewards_defaulted"] == 800

    asyncio.run(run())


def test_a_tenant_that_was_changed_is_closed_in_the_same_round(store_url: str) -> None:
    """Though this worker remembers it as it was."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            await made.select(0.3)
            other = await made.store.directory.read(made.tenant.name)
            async with engine(store_url, BODY) as elsewhere:
                await elsewhere.store.directory.revise(
                    other, settings={"default_reward": 0.25}, now_ms=NOW_MS
                )
            made.clock[0] += 5000
            await close(made)
            stats = await made.store.directory.stats(made.tenant, now_ms=made.clock[0])
            assert stats.reward_sum == 0.25

    asyncio.run(run())


@pytest.mark.parametrize("default", [0.5, None])
def test_what_waits_for_its_default_reward_is_open(store_url: str, default: float | None) -> None:
    """However late the closer comes; then it is defaulted, but for what nobody learns from."""

    async def run() -> None:
        body = BODY | {"default_reward": default, "retention_seconds": 100}
        async with engine(store_url, body) as made:

            async def decisions() -> dict[str, int]:
                now_ms = made.clock[0]
                stats = await made.store.directory.stats(made.tenant, now_ms=now_ms)
                return {state: count for state, count in stats.decisions.items() if count}

            played = [await made.select(0.3) for _ in range(4)]
            made.clock[0] += 20_000
            assert await decisions() == ({"expired": 4} if default is None else {"open": 4})
            await made.change_arm(played[0].arm, RETIRED)
            retired = sum(play.arm == played[0].arm for play in played)
            await made.select(0.3)
            await made.close_all()
            ended = {"defaulted": 4 - retired, "expired": retired, "open": 1}
            assert await decisions() == (ended if default else {"expired": 4, "open": 1})

    asyncio.run(run())
