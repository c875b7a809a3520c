"""The connections that calls keep: whatever becomes of one, each call has its own answer, once."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from service.store import Selected, Wanted, new_decision_id
from tests.support.engine import Engine, counters_of, engine

BODY: dict[str, Any] = {"arms": 3, "noise": 0.1}
ROUNDS, AT_ONCE = 12, 40


async def select(made: Engine, decision_id: str, x: float) -> Selected:
    """A decision for this context."""
    wanted = Wanted(decision_id=decision_id, x=x)
    return await made.store.select(made.tenant, wanted, now_ms=made.clock[0])


@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_calls_go_on_when_the_server_has_closed_their_connections(
    store_url: str, raw: Any, preset: str
) -> None:
    """All of them, again and again; no reward is lost or counted twice."""
    body = BODY | {"preset": preset, "horizon": 1000}

    async def run() -> None:
        async with engine(store_url, body) as made:
            for _ in range(ROUNDS):
                plays = await asyncio.gather(*(made.select(0.5) for _ in range(5)))
                assert raw.client_kill_filter(_type="normal", skipme=True) > 0
                rewarded = await asyncio.gather(
                    *(made.reward(played.decision_id, 1.0) for played in plays)
                )
                assert {one.status for one in rewarded} == {"applied"}
                raw.client_kill_filter(_type="normal", skipme=True)
            counters = await counters_of(made.store, made.tenant)
            assert counters["rewards_applied"] == 5 * ROUNDS
            assert counters["trials_active"] + counters["trials_flagged"] == 5 * ROUNDS

    asyncio.run(run())


def test_calls_that_are_cancelled_leave_no_answer_to_others(store_url: str, raw: Any) -> None:
    """At any moment, while others are under way; and they leave no connection open for good."""
    chance = random.Random(5)
    ended: Counter[str] = Counter()

    async def cut_short(made: Engine, decision_id: str, x: float) -> None:
        call = asyncio.create_task(select(made, decision_id, x))
        await asyncio.sleep(chance.choice([0, 0.001, 0.003, 0.01, 0.03]))
        call.cancel()
        try:
            ended["in time"] += (await call).x == x
        except asyncio.CancelledError:
            ended["cancelled"] += 1

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            for _ in range(ROUNDS):
                asked = {new_decision_id(made.clock[0]): chance.random() for _ in range(AT_ONCE)}
                cut = asyncio.gather(*(cut_short(made, *one) for one in list(asked.items())[::2]))
                others = list(asked.items())[1::2]
                answers = await asyncio.gather(*(select(made, *one) for one in others))
                await cut
                assert [answer.x for answer in answers] == [x for _, x in others]
                again = await asyncio.gather(*(select(made, *one) for one in asked.items()))
                assert [answer.x for answer in again] == list(asked.values())
            counters = await counters_of(made.store, made.tenant)
            assert counters["trials_active"] + counters["trials_flagged"] == ROUNDS * AT_ONCE
            assert len(raw.client_list()) <= 64 + 1

    asyncio.run(run())
    assert min(ended["in time"], ended["cancelled"]) > 0, ended
