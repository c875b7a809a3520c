"""What is read of a tenant while it is changed elsewhere."""

import asyncio
import threading
from typing import Any

import pytest

from service.errors import StaleTenant
from service.store import Tenant
from tests.support.engine import NOW_MS, engine


def test_what_is_current_is_not_taken_from_a_reading_that_began_before(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys that it had then may have been revoked since."""
    parsing, changed = threading.Event(), threading.Event()
    parse = Tenant.from_document

    def slowly(**fields: Any) -> Tenant:
        parsing.set()
        changed.wait(10)
        return parse(**fields)

    async def run() -> None:
        async with engine(store_url, {"arms": 2}) as made:
            directory, before = made.store.directory, made.tenant
            directory.forget(before.name)
            monkeypatch.setattr(Tenant, "from_document", slowly)
            reading = asyncio.create_task(directory.read(before.name))
            await asyncio.to_thread(parsing.wait, 10)
            async with engine(store_url, {"arms": 2}) as elsewhere:
                after = await elsewhere.store.directory.revise(before, keys=[], now_ms=NOW_MS)
            read = directory.read

            async def joins(name: str) -> Tenant:
                changed.set()
                return await read(name)

            monkeypatch.setattr(directory, "read", joins)
            current = await directory.current(before.name)
            assert (await reading).keys == before.keys
            assert (current.revision, current.keys) == (after.revision, ())

    asyncio.run(run())


@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_a_decision_may_be_for_an_arm_that_was_added_since(store_url: str, preset: str) -> None:
    """The tenant is read again then."""

    async def run() -> None:
        body = {"arms": 2, "preset": preset, "horizon": 1000, "noise": 0.1}
        async with engine(store_url, body) as made:
            before = made.tenant
            await made.add_arm("new")
            played = await made.select(0.5, eligible=[2])
            decisions = made.store.decisions
            with pytest.raises(StaleTenant):
                await decisions.read(before, played.decision_id, now_ms=NOW_MS)
            found = await decisions.read(made.tenant, played.decision_id, now_ms=NOW_MS)
            assert found is not None
            record, ball = found
            assert ball is not None
            assert (record.arm, ball.arms) == (2, [2])

    asyncio.run(run())
