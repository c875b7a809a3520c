"""A store that has forgotten the steps, at any moment, costs a batch two round trips more."""

import asyncio
import random
import threading
from typing import Any

import pytest
from redis.asyncio.client import Pipeline, Redis

from service.store import Wanted, new_attempt
from tests.support.engine import Engine, counters_of, engine, new_engine

ITEMS = 100
BODY: dict[str, Any] = {"arms": 5, "noise": 0.1}


class Trips:
    """Counts what is sent to a store: pipelines, and commands by themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pipelines = self.single = 0
        execute: Any = Pipeline.execute
        command: Any = Redis.execute_command

        async def counted_execute(pipeline: Any, *args: Any, **more: Any) -> Any:
            self.pipelines += 1
            return await execute(pipeline, *args, **more)

        async def counted_command(client: Any, *args: Any, **more: Any) -> Any:
            self.single += 1
            return await command(client, *args, **more)

        monkeypatch.setattr(Pipeline, "execute", counted_execute)
        monkeypatch.setattr(Redis, "execute_command", counted_command)


async def select_all(made: Engine, number: int) -> list[int]:
    """The arms of a batch of selects."""
    chance = random.Random(number)
    wanted = [
        (made.tenant, Wanted(decision_id=f"batch-{number}-{place}", x=chance.random()))
        for place in range(ITEMS)
    ]
    found = await made.store.select_all(wanted, now_ms=made.clock[0])
    return [selected.choices[0].arm for selected in found]


async def reward_all(made: Engine, number: int) -> list[str]:
    """What became of the rewards of that batch."""
    given = [(made.tenant, f"batch-{number}-{place}", place % 7 / 6) for place in range(ITEMS)]
    found = await made.store.reward_all(given, now_ms=made.clock[0], attempt=new_attempt())
    return [rewarded.status for rewarded in found]


def test_a_flush_costs_a_batch_two_round_trips(
    store_url: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its items are taken in their order: a tenant whose steps stay does the same."""

    async def run() -> None:
        async with engine(store_url, BODY) as flushed:
            spared = await new_engine(flushed.store, BODY)
            for number in range(3):
                raw.function_flush()
                trips = Trips(monkeypatch)
                arms = await select_all(flushed, number)
                assert (trips.pipelines, trips.single) == (3, 0)
                assert arms == await select_all(spared, number)
                raw.function_flush()
                trips = Trips(monkeypatch)
                assert await reward_all(flushed, number) == ["applied"] * ITEMS
                assert (trips.pipelines, trips.single) == (3, 0)
                await reward_all(spared, number)

    asyncio.run(run())


def test_flushes_without_end_are_invisible(store_url: str, raw: Any) -> None:
    """Each item of each batch is taken once."""
    ended = threading.Event()

    def flush() -> None:
        while not ended.is_set():
            raw.function_flush()

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            for number in range(3):
                assert len(await select_all(made, number)) == ITEMS
                assert await reward_all(made, number) == ["applied"] * ITEMS
            counters = await counters_of(made.store, made.tenant)
            assert counters["rewards_applied"] == 3 * ITEMS
            assert counters["trials_active"] + counters["trials_flagged"] == 3 * ITEMS

    storm = threading.Thread(target=flush)
    storm.start()
    try:
        asyncio.run(run())
    finally:
        ended.set()
        storm.join()
