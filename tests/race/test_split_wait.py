"""How long a request waits for the split that it found due, and what goes on meanwhile."""

import asyncio
import time
from typing import Any

from service.store import LEASE_MS
from tests.support.engine import Engine, counters_of, engine

BODY: dict[str, Any] = {
    "arms": 4,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.1,
    "neighbours": 1,
}


async def fill(made: Engine) -> int:
    """Gives the root its last sample, and leaves the split to others; the ball that is due."""
    due = None
    while due is None:
        played = await made.select_only(0.5)
        rewarded = await made.store.reward(
            made.tenant, decision_id=played.decision_id, reward=0.5, now_ms=made.clock[0]
        )
        due = rewarded.due
    return due


def test_the_wait_ends_and_the_split_goes_on(store_url: str) -> None:
    """Another worker holds the claim and dies: the request returns, the split is made later."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            ball = await fill(made)
            claim = await made.store.claim(
                made.tenant, ball=ball, token="dead", now_ms=made.clock[0]
            )
            assert claim.status == "claimed"
            started = time.monotonic()
            await made.splitter.split(made.tenant, ball=ball, wait_seconds=0.1)
            assert time.monotonic() - started >= 0.1
            assert (await counters_of(made.store, made.tenant))["splits"] == 0
            made.clock[0] += LEASE_MS
            await made.splitter.split(made.tenant, ball=ball, wait_seconds=None)
            assert (await counters_of(made.store, made.tenant))["splits"] == 1

    asyncio.run(run())


def test_a_client_that_goes_away_does_not_take_the_split_with_it(store_url: str) -> None:
    """The request is cancelled; the work is not."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            ball = await fill(made)
            request = asyncio.create_task(
                made.splitter.split(made.tenant, ball=ball, wait_seconds=None)
            )
            await asyncio.sleep(0)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
            assert request.cancelled()
            await made.splitter.close()
            assert (await counters_of(made.store, made.tenant))["splits"] == 1

    asyncio.run(run())


def test_the_event_loop_stays_free_during_a_large_sub_partition(store_url: str) -> None:
    """Others are answered many times while one split computes."""
    rows = [[float(arm), float(arm % 7)] for arm in range(3000)]
    body = BODY | {"arms": 3000, "similarity": {"kind": "features", "features": rows}}

    async def run() -> int:
        async with engine(store_url, BODY) as other:
            creating = asyncio.create_task(_create(store_url, body))
            answered = 0
            while not creating.done():
                await other.select_only(0.5)
                answered += 1
            await creating
            return answered

    assert asyncio.run(run()) > 20


async def _create(url: str, body: dict[str, Any]) -> None:
    async with engine(url, body) as made:
        counters = await counters_of(made.store, made.tenant)
        assert counters["splits"] == 1
