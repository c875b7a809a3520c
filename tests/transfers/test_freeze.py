"""While a tenant is exported nothing of it changes, and nothing is held up for longer than that."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from service.closer import Closer
from service.embedded import PrivateStore
from service.errors import TenantFrozen
from service.splitter import children_of
from service.store import LEASE_MS, PAUSED, Children, Store, Tenant, TenantKey, Wanted
from service.store.exporting import FREEZE_MS
from tests.support.engine import NOW_MS, Engine, new_engine, new_name
from tests.support.transfer import export, import_file, kept, wall_clock_ms

BODY: dict[str, Any] = {
    "arms": 6,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.1,
    "neighbours": 1,
    "flag_coefficient": 0.01,
}
RESTS = 7


def on_an_engine(url: str, test: Callable[[Engine], Awaitable[None]]) -> None:
    """Runs the test on a new tenant that has some balls and open decisions."""

    async def run() -> None:
        store = Store(url)
        try:
            made = await new_engine(store, BODY)
            for trial in range(40):
                played = await made.select(trial % 8 / 8)
                if trial % RESTS:
                    await made.reward(played.decision_id, trial % 3 / 2)
            await test(made)
        finally:
            await store.close()

    asyncio.run(run())


async def fill_a_ball(made: Engine) -> int:
    """Rewards until a ball is full, and leaves its split to the caller; the ball."""
    chance = random.Random(0)
    while True:
        played = await made.select_only(chance.random())
        given = await made.store.reward(
            made.tenant, decision_id=played.decision_id, reward=0.5, now_ms=NOW_MS
        )
        for due in (played.due, given.due):
            if due is not None:
                return due


async def claimed(made: Engine, ball: int, *, token: str, now_ms: int) -> Children:
    """Claims the ball and computes its children, as a worker would."""
    claim = await made.store.claim(made.tenant, ball=ball, token=token, now_ms=now_ms)
    assert claim.record is not None
    arms, samples = await made.store.read_ball(made.tenant, ball=ball, record=claim.record)
    return children_of(made.tenant, record=claim.record, arms=arms, samples=samples)


def last_line(file: bytes) -> dict[str, Any]:
    """What the file says at its end."""
    found: dict[str, Any] = json.loads(file.splitlines()[-1])
    return found


def test_requests_are_refused_and_lose_nothing(store_url: str) -> None:
    """Alone and in batches; other tenants notice nothing."""

    async def check(made: Engine) -> None:
        store, tenant = made.store, made.tenant
        before = await kept(store_url, tenant)
        lines = await store.export(tenant, clock_ms=lambda: NOW_MS)
        frozen: list[Awaitable[Any]] = [
            made.select(0.5),
            made.reward("any", 1.0),
            store.select_all([(tenant, Wanted(decision_id="a", x=0.5))], now_ms=NOW_MS),
            store.reward_all([(tenant, "a", 0.5)], now_ms=NOW_MS, attempt=1),
            store.censor(tenant, decision_id="a", now_ms=NOW_MS),
            store.arms.add(tenant, "new", now_ms=NOW_MS),
            store.arms.change(tenant, 0, state=PAUSED, now_ms=NOW_MS),
            store.arms.settle(tenant, 0, now_ms=NOW_MS),
            store.decisions.close(tenant, now_ms=NOW_MS, slot="", cursor="0"),
        ]
        for refused in frozen:
            with pytest.raises(TenantFrozen):
                await refused
        other = await new_engine(store, BODY)
        await other.reward((await other.select(0.5)).decision_id, 1.0)
        file = b"".join([some async for some in lines])
        assert "end" in last_line(file)
        assert await kept(store_url, tenant) == before
        await made.reward((await made.select(0.5)).decision_id, 1.0)

    on_an_engine(store_url, check)


def test_of_two_exports_one_is_refused(store_url: str) -> None:
    async def check(made: Engine) -> None:
        lines = await made.store.export(made.tenant, clock_ms=wall_clock_ms)
        with pytest.raises(TenantFrozen):
            await made.store.export(made.tenant, clock_ms=wall_clock_ms)
        await anext(lines)
        await lines.aclose()
        assert "end" in last_line(await export(made.store, made.tenant))

    on_an_engine(store_url, check)


def test_whoever_stops_taking_lines_loses_the_freeze(store_url: str) -> None:
    """The tenant serves again, and what was taken can never be imported."""

    async def check(made: Engine) -> None:
        clock = [NOW_MS]
        lines = await made.store.export(made.tenant, clock_ms=lambda: clock[0])
        taken = [await anext(lines), await anext(lines)]
        made.clock[0] = clock[0] = NOW_MS + FREEZE_MS
        await made.reward((await made.select(0.5)).decision_id, 1.0)
        taken += [some async for some in lines]
        assert "error" in last_line(b"".join(taken))

    on_an_engine(store_url, check)


def test_a_dead_exporter_holds_nobody_up_for_long(store_url: str) -> None:
    """Nor does its freeze, once it is over, keep the next export away, or go with it."""

    async def check(made: Engine) -> None:
        await made.store.export(made.tenant, clock_ms=lambda: NOW_MS)
        with pytest.raises(TenantFrozen):
            await made.select(0.5)
        made.clock[0] += FREEZE_MS
        await made.select(0.5)
        lines = await made.store.export(made.tenant, clock_ms=lambda: made.clock[0])
        file = b"".join([some async for some in lines])
        tenant = await import_file(made.store, new_name(), file)
        assert not [name for name in await kept(store_url, tenant) if name.startswith("frozen")]

    on_an_engine(store_url, check)


def test_an_export_that_is_broken_off_thaws_at_once(store_url: str) -> None:
    async def check(made: Engine) -> None:
        lines = await made.store.export(made.tenant, clock_ms=lambda: NOW_MS)
        await anext(lines)
        await lines.aclose()
        assert not await is_frozen(made)

    on_an_engine(store_url, check)


def test_an_export_that_is_closed_before_its_first_line_thaws_at_once(store_url: str) -> None:
    async def check(made: Engine) -> None:
        lines = await made.store.export(made.tenant, clock_ms=lambda: NOW_MS)
        await lines.aclose()
        assert not await is_frozen(made)

    on_an_engine(store_url, check)


def test_an_export_that_is_given_up_while_it_waits_thaws_at_once(store_url: str) -> None:
    """It waits for a split; then its request is cancelled."""

    async def check(made: Engine) -> None:
        ball = await fill_a_ball(made)
        await claimed(made, ball, token="worker", now_ms=NOW_MS)
        exporting = asyncio.create_task(made.store.export(made.tenant, clock_ms=lambda: NOW_MS))
        while not await is_frozen(made):
            pass
        exporting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await exporting
        assert not await is_frozen(made)

    on_an_engine(store_url, check)


def test_a_freeze_that_another_came_after_is_not_renewed(store_url: str) -> None:
    """Though that one has ended: the tenant may have changed between the two."""

    async def check(made: Engine) -> None:
        clock = [NOW_MS]
        lines = await made.store.export(made.tenant, clock_ms=lambda: clock[0])
        taken = [await anext(lines), await anext(lines)]
        clock[0] += FREEZE_MS
        other = await made.store.export(made.tenant, clock_ms=lambda: clock[0])
        assert "end" in last_line(b"".join([some async for some in other]))
        taken += [some async for some in lines]
        assert "error" in last_line(b"".join(taken))

    on_an_engine(store_url, check)


@pytest.mark.parametrize("what", ["settings", "keys", "the tenant"])
def test_a_change_meanwhile_spoils_the_export(store_url: str, what: str) -> None:
    """A key must be revoked at once, whatever is going on."""

    async def check(made: Engine) -> None:
        directory, tenant = made.store.directory, made.tenant
        lines = await made.store.export(tenant, clock_ms=lambda: NOW_MS)
        taken = [await anext(lines)]
        if what == "settings":
            await directory.revise(tenant, settings={"split_wait_ms": 7}, now_ms=NOW_MS)
        elif what == "keys":
            key = TenantKey.make("hash", now_ms=NOW_MS)
            await directory.revise(tenant, keys=[key], now_ms=NOW_MS)
        else:
            await directory.delete(tenant.name, incarnation=tenant.incarnation)
        taken += [some async for some in lines]
        assert "error" in last_line(b"".join(taken))

    on_an_engine(store_url, check)


@pytest.mark.parametrize("what", ["censored", "expired", "forgotten", "settled"])
def test_whoever_has_another_clock_spoils_the_export(
    both_stores: dict[str, str], what: str
) -> None:
    """To a host whose clock is ahead the freeze is over; what it then does is noticed."""
    store_url = both_stores["redis"]  # where no service is at work that would close decisions

    async def check(made: Engine) -> None:
        store, tenant = made.store, made.tenant
        played = await made.select(0.5)
        over_ms = NOW_MS + tenant.window_ms + 2 * tenant.slot_ms
        past_ms = over_ms + tenant.retention_ms
        if what == "forgotten":
            while (await store.decisions.close(tenant, now_ms=over_ms, slot="", cursor="0")).more:
                pass
        elif what == "settled":
            await store.arms.change(tenant, 0, state=PAUSED, now_ms=NOW_MS)
            tenant = await store.directory.read(tenant.name)
        lines = await store.export(tenant, clock_ms=lambda: NOW_MS)
        taken = [await anext(lines)]
        ahead_ms = NOW_MS + FREEZE_MS
        match what:
            case "censored":
                await store.censor(tenant, decision_id=played.decision_id, now_ms=ahead_ms)
            case "expired":
                await store.decisions.close(tenant, now_ms=over_ms, slot="", cursor="0")
            case "forgotten":
                await store.decisions.close(tenant, now_ms=past_ms, slot="", cursor="0")
            case "settled":
                await store.arms.settle(tenant, 0, now_ms=ahead_ms)
        taken += [some async for some in lines]
        assert "error" in last_line(b"".join(taken))

    on_an_engine(store_url, check)


def test_whoever_closes_decisions_leaves_a_frozen_tenant_alone(
    both_stores: dict[str, str],
) -> None:
    """And goes on with the others, and with this one afterwards."""
    store_url = both_stores["redis"]  # where no service is at work that would close them

    async def check(made: Engine) -> None:
        store, tenant = made.store, made.tenant
        await (await new_engine(store, BODY)).select(0.5)
        over_ms = NOW_MS + tenant.window_ms + 2 * tenant.slot_ms
        closer = Closer(store, made.splitter, clock_ms=lambda: over_ms)
        lines = await store.export(tenant, clock_ms=lambda: over_ms)
        await anext(lines)
        before = await kept(store_url, tenant)
        await closer.close_all()
        assert await store.decisions.tenants_to_close(now_ms=over_ms) == [tenant.name]
        assert await kept(store_url, tenant) == before
        await lines.aclose()
        await closer.close_all()
        assert await store.decisions.tenants_to_close(now_ms=over_ms) == []

    on_an_engine(store_url, check)


# -- splits


def test_an_export_waits_for_a_split_that_is_under_way(store_url: str) -> None:
    """Its worker may renew the claim, stage and publish; the file then has the split."""

    async def check(made: Engine) -> None:
        store, tenant, token = made.store, made.tenant, "worker"
        ball = await fill_a_ball(made)
        children = await claimed(made, ball, token=token, now_ms=NOW_MS)
        exporting = asyncio.create_task(store.export(tenant, clock_ms=lambda: NOW_MS))
        while not await is_frozen(made):
            pass
        renewed = await store.claim(tenant, ball=ball, token=token, now_ms=NOW_MS)
        assert renewed.status == "claimed"
        assert not exporting.done()
        await publish(made, ball, token=token, children=children)
        file = b"".join([some async for some in await exporting])
        copied = await import_file(store, new_name(), file)
        assert await kept(store_url, copied) == await kept(store_url, tenant)
        assert await store.partition(copied) == await store.partition(tenant)

    on_an_engine(store_url, check)


def test_no_split_begins_while_the_tenant_is_frozen(store_url: str) -> None:
    async def check(made: Engine) -> None:
        ball = await fill_a_ball(made)
        lines = await made.store.export(made.tenant, clock_ms=lambda: NOW_MS)
        claim = await made.store.claim(made.tenant, ball=ball, token="w", now_ms=NOW_MS)
        assert claim.status == "busy"
        splitting = asyncio.create_task(
            made.splitter.split(made.tenant, ball=ball, wait_seconds=None)
        )
        assert "end" in last_line(b"".join([some async for some in lines]))
        await splitting  # as soon as the tenant is thawed
        assert ball not in [one.id for one in await made.store.partition(made.tenant)]

    on_an_engine(store_url, check)


def test_a_worker_that_was_thought_dead_publishes_nothing_into_the_freeze(store_url: str) -> None:
    """Its claim had run out; afterwards the ball is split by whoever meets it, in both tenants."""

    async def check(made: Engine) -> None:
        store, tenant, token = made.store, made.tenant, "stalled"
        ball = await fill_a_ball(made)
        children = await claimed(made, ball, token=token, now_ms=NOW_MS - LEASE_MS)
        lines = await store.export(tenant, clock_ms=lambda: NOW_MS)
        assert await store.stage(tenant, ball=ball, token=token, children=children) is None
        file = b"".join([some async for some in lines])
        assert "end" in last_line(file)
        copied = await import_file(store, new_name(), file)
        for one in (made, Engine(store, copied, [NOW_MS])):
            await one.splitter.split(one.tenant, ball=ball, wait_seconds=None)
        assert await store.partition(copied) == await store.partition(tenant)
        assert await kept(store_url, copied) == await kept(store_url, tenant)

    on_an_engine(store_url, check)


def test_a_split_that_was_staged_before_it_is_finished_in_both(store_url: str) -> None:
    """Its worker died before the publication; whoever is next keeps the ids that were reserved."""

    async def check(made: Engine) -> None:
        store, tenant, token = made.store, made.tenant, "dead"
        ball = await fill_a_ball(made)
        children = await claimed(made, ball, token=token, now_ms=NOW_MS)
        first = await store.stage(tenant, ball=ball, token=token, children=children)
        made.clock[0] += LEASE_MS
        file = b"".join(
            [some async for some in await store.export(tenant, clock_ms=lambda: made.clock[0])]
        )
        copied = Engine(store, await import_file(store, new_name(), file), made.clock)
        for one in (made, copied):
            await one.splitter.split(one.tenant, ball=ball, wait_seconds=None)
            assert (
                min(b.id for b in await store.partition(one.tenant) if b.id >= (first or 0))
                == first
            )
        assert await kept(store_url, copied.tenant) == await kept(store_url, tenant)

    on_an_engine(store_url, check)


async def is_frozen(made: Engine) -> bool:
    """Whether requests are refused."""
    try:
        await made.select_only(0.5)
    except TenantFrozen:
        return True
    return False


async def publish(made: Engine, ball: int, *, token: str, children: Children) -> None:
    """Stages and publishes, as the holder of the claim."""
    first = await made.store.stage(made.tenant, ball=ball, token=token, children=children)
    assert first is not None
    assert await made.store.publish(
        made.tenant, ball=ball, token=token, first=first, children=children
    )


# -- a store that fails


def test_a_store_that_goes_away_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    async def run(private: PrivateStore) -> bytes:
        store = Store(private.url)
        try:
            made = await new_engine(store, BODY)
            lines = await store.export(made.tenant, clock_ms=wall_clock_ms)
            taken = [await anext(lines)]
            private.stop()
            return b"".join(taken + [some async for some in lines])
        finally:
            await store.close()

    with PrivateStore(tmp_path) as private:
        file = asyncio.run(run(private))
    assert "unreachable" in last_line(file)["error"] or "timeout" in last_line(file)["error"]


def test_exports_of_one_tenant_name_are_of_its_incarnation(store_url: str) -> None:
    """A tenant deleted and made again, while the export of the old one waits for its next line."""

    async def check(made: Engine) -> None:
        directory, old = made.store.directory, made.tenant
        lines = await made.store.export(old, clock_ms=lambda: NOW_MS)
        taken = [await anext(lines)]
        await directory.delete(old.name, incarnation=old.incarnation)
        fresh = await remade(made.store, old)
        taken += [some async for some in lines]
        assert "error" in last_line(b"".join(taken))
        await Engine(made.store, fresh, [NOW_MS]).select(0.5)

    on_an_engine(store_url, check)


async def remade(store: Store, old: Tenant) -> Tenant:
    """A new tenant of the same name and settings."""
    tenant, created = await store.directory.create(
        old.name, body_digest="", settings=old.settings, key_hash="", now_ms=NOW_MS
    )
    assert created
    return tenant
