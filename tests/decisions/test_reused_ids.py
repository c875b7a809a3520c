"""An id that is used again when its decision is past: a decision of its own, like any other."""

import asyncio

import pytest

from service.store import new_decision_id
from tests.support.engine import NOW_MS, counters_of, engine

BODY = {"arms": 2, "reward_window_seconds": 1, "retention_seconds": 1}
PAST_MS = 2001


@pytest.mark.parametrize("decision_id", ["mine", new_decision_id(NOW_MS)], ids=["mine", "ours"])
@pytest.mark.parametrize("is_swept", [False, True])
def test_a_select_after_the_retention_is_a_new_decision(
    store_url: str, decision_id: str, is_swept: bool
) -> None:
    """Also while the record of the old one is still there, where the id tells to look first."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            await made.select(0.3, decision_id=decision_id)
            made.clock[0] += PAST_MS
            if is_swept:
                await made.close_all()
            first = await made.select(0.7, decision_id=decision_id)
            assert first.at_ms == made.clock[0]
            made.clock[0] += 1
            assert await made.select(0.7, decision_id=decision_id) == first
            assert (await made.reward(decision_id, 1.0)).status == "applied"
            assert (await made.reward(decision_id, 1.0)).status == "duplicate"
            read = await made.store.decisions.read(made.tenant, decision_id, now_ms=made.clock[0])
            assert read is not None
            assert (read[0].x, read[0].state) == (0.7, "rewarded")
            counters = await counters_of(made.store, made.tenant)
            assert counters["trials_flagged"] + counters["trials_active"] == 2
            await made.close_all()

    asyncio.run(run())
