"""Every step may be sent twice: when a reply is lost, the client library sends the step again."""

import asyncio
import random
from typing import Any

import pytest

from service.store import Store, steps
from service.store.keys import DELETIONS
from tests.exactness.test_store_level import BODY, check_play
from tests.support.engine import counters_of, new_engine
from tests.support.steps import run_step


@pytest.fixture
def first_replies_lost(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The steps that ran: each twice, the second reply being the one that arrives."""
    ran: set[str] = set()
    call = steps.call

    async def twice(client: Any, step: str, **about: Any) -> list[Any]:
        ran.add(step)
        first = await call(client, step, **about)
        second = await call(client, step, **about)
        assert second == first, f"{step} replied {first}, then {second}"
        return second

    monkeypatch.setattr(steps, "call", twice)
    return ran


@pytest.mark.parametrize("similarity", ["learned", "none"])
def test_a_lost_reply_changes_nothing(
    store_url: str, first_replies_lost: set[str], similarity: str
) -> None:
    """Still the same arm in the same ball, every reward counted once, and the same replies."""

    async def run() -> None:
        store = Store(store_url)
        try:
            chance = random.Random(0)
            plays = [chance.random() for _ in range(400)]
            body = BODY | {"similarity": {"kind": similarity}}
            await check_play(store_url, store, body, plays, chance, "in step")
            assert await counters_of(store, (await new_engine(store, body)).tenant)
        finally:
            await store.close()

    asyncio.run(run())
    assert first_replies_lost == {
        "create",
        "select",
        "reward",
        "claim",
        "stage",
        "publish",
        "stats",
    }


def test_a_deletion_whose_reply_is_lost_is_a_deletion(store_url: str, raw: Any) -> None:
    """Sweeping and forgetting may be repeated too."""

    async def run() -> None:
        store = Store(store_url)
        try:
            made = await new_engine(store, BODY | {"similarity": {"kind": "none"}})
            key, incarnation = made.tenant.key, made.tenant.incarnation
            named = (made.tenant.name, incarnation)
            for _ in range(2):
                assert run_step(raw, "condemn", DELETIONS, *named) == [b"condemned"]
            for _ in range(2):
                assert run_step(raw, "delete", key, incarnation) == [b"deleted"]
            for _ in range(2):
                assert run_step(raw, "sweep", key, incarnation, 0) == [b"swept"]
            await store.directory.finish_deletions()
        finally:
            await store.close()

    asyncio.run(run())
    assert raw.keys() == []
