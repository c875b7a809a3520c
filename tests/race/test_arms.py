"""Changes of the catalogue that meet splits, readers and deaths: the audit finds all in order."""

import asyncio
from typing import Any

import pytest
import redis

from service.splitter import children_of
from service.store import LIVE, PAUSED, RETIRED, Store, Tenant, keys
from tests.support.engine import NOW_MS, Engine, counters_of, engine, new_engine

PAPER: dict[str, Any] = {"preset": "simulation", "horizon": 1000, "noise": 0.0}
ALONE = PAPER | {"arms": 3, "similarity": {"kind": "none"}, "flag_coefficient": 0.0}
SAMPLED = PAPER | {"arms": 3, "neighbours": 1, "buckets": 1, "cluster_ratio": 0.0}


async def fill(made: Engine, *, arms: int) -> int:
    """Rewards as many arms of the root; the ball that is due then."""
    due = None
    for _ in range(arms):
        played = await made.select_only(0.3)
        rewarded = await made.store.reward(
            made.tenant,
            decision_id=played.decision_id,
            reward=played.arm / 10,
            now_ms=made.clock[0],
        )
        due = rewarded.due
    assert due is not None
    return due


def test_a_ball_whose_arms_are_retired_while_it_is_split_stays_gone(store_url: str) -> None:
    """The worker that claimed it finds the claim lost, and publishes nothing."""

    async def run() -> None:
        async with engine(store_url, ALONE) as made:
            store, now = made.store, made.clock[0]
            played = await made.select_only(0.3)
            rewarded = await store.reward(
                made.tenant, decision_id=played.decision_id, reward=1.0, now_ms=now
            )
            ball, before = rewarded.due, made.tenant
            assert ball is not None
            claim = await store.claim(before, ball=ball, token="mine", now_ms=now)
            assert claim.record is not None
            arms, samples = await store.read_ball(before, ball=ball, record=claim.record)
            children = children_of(before, record=claim.record, arms=arms, samples=samples)
            await made.change_arm(played.arm, RETIRED)
            first = await store.stage(before, ball=ball, token="mine", children=children)
            assert first is None or not await store.publish(
                before, ball=ball, token="mine", first=first, children=children
            )
            partition = await store.partition(made.tenant)
            assert all(played.arm not in one.arms for one in partition)

    asyncio.run(run())


class Interrupted(Store):
    """Retires an arm just before a split is published."""

    retired = -1

    async def publish(self, tenant: Tenant, **split: Any) -> bool:
        """As it is, after the change."""
        await self.arms.change(tenant, self.retired, state=RETIRED, now_ms=NOW_MS)
        current = await self.directory.read(tenant.name)
        await self.arms.settle(current, self.retired, now_ms=NOW_MS)
        return await super().publish(tenant, **split)


def test_an_arm_that_is_retired_while_its_ball_is_split_is_in_no_child(store_url: str) -> None:
    """Though the children were made from what was known before."""

    async def run() -> None:
        store = Interrupted(store_url)
        try:
            made = await new_engine(store, SAMPLED)
            ball = await fill(made, arms=3)
            store.retired = 1
            await made.splitter.split(made.tenant, ball=ball, wait_seconds=None)
            await made.refresh()
            partition = await store.partition(made.tenant)
            assert sorted(one.arms for one in partition) == [[0], [0], [2], [2]]
        finally:
            await store.close()

    asyncio.run(run())


def test_an_arm_is_taken_out_of_the_children_though_the_tenant_changes_meanwhile(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its balls are settled once more, for the tenant as it is then."""

    async def run() -> None:
        store = Interrupted(store_url)
        settle, settled = store.arms.settle, []

        async def after_a_change(tenant: Tenant, arm: int, *, now_ms: int) -> list[int]:
            settled.append(arm)
            if len(settled) == 2:  # the first was that of the retirement, before the split
                await store.arms.add(tenant, "new", now_ms=now_ms)
            return await settle(tenant, arm, now_ms=now_ms)

        try:
            made = await new_engine(store, SAMPLED)
            ball = await fill(made, arms=3)
            store.retired = 1
            monkeypatch.setattr(store.arms, "settle", after_a_change)
            await made.splitter.split(made.tenant, ball=ball, wait_seconds=None)
            await made.refresh()
            assert settled == [1, 1, 1]
            partition = await store.partition(made.tenant)
            assert sorted(one.arms for one in partition) == [[0], [0], [2], [2], [3]]
        finally:
            await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("body", [{"arms": 3}, SAMPLED], ids=["adaptive", "sampled"])
def test_an_attempt_that_is_repeated_after_a_retirement_gets_its_first_answer(
    store_url: str, body: dict[str, Any]
) -> None:
    """A batch is sent again when its tenant was changed half-way."""

    async def run() -> None:
        async with engine(store_url, body) as made:
            played = await made.select(0.3)
            for _ in range(2):
                given = [(made.tenant, played.decision_id, 1.0)]
                (one,) = await made.store.reward_all(given, now_ms=NOW_MS, attempt=7)
                assert one.status == "applied"
                if made.tenant.arm_states[played.arm] != RETIRED:
                    await made.change_arm(played.arm, RETIRED)
            counters = await counters_of(made.store, made.tenant)
            assert (counters["rewards_applied"], counters["rewards_ignored"]) == (1, 0)

    asyncio.run(run())


def test_a_change_that_was_cut_short_is_finished_by_a_select(store_url: str) -> None:
    """The worker died before it brought the arm's balls up to date, and nobody asked again."""

    async def run(state: int) -> None:
        async with engine(store_url, SAMPLED) as made:
            for _ in range(2):
                await made.reward((await made.select(0.3)).decision_id, 0.5)
            await made.store.arms.change(made.tenant, 2, state=state, now_ms=made.clock[0])
            await made.refresh()
            for _ in range(3):
                await made.select(0.3)
            partition = await made.store.partition(made.tenant)
            assert {ball.phase for ball in partition} == {"active"}

    for state in (PAUSED, RETIRED):
        asyncio.run(run(state))


def test_the_arms_of_a_ball_outlive_it_for_those_who_read_the_partition(
    store_url: str, raw: "redis.Redis"
) -> None:
    """Who has just seen the ball reads its arms next; without them the tenant would seem gone."""

    async def run() -> None:
        async with engine(store_url, ALONE) as made:
            (ball, _) = [b for b in await made.store.partition(made.tenant) if b.arms == [1]]
            await made.change_arm(1, RETIRED)
            ttl_ms = raw.pttl(keys.derived(made.tenant.base, "arms", ball.id))
            kept_ms = made.tenant.window_ms + made.tenant.retention_ms
            assert kept_ms - 60_000 < ttl_ms <= kept_ms

    asyncio.run(run())


@pytest.mark.parametrize("body", [{"arms": 3}, ALONE], ids=["adaptive", "none"])
def test_a_thousand_changes_leave_no_key_behind(
    store_url: str, raw: "redis.Redis", body: dict[str, Any]
) -> None:
    """Half of them with each preset; each arm is played, and takes its keys with it."""

    async def run() -> None:
        async with engine(store_url, body) as made:
            await made.reward((await made.select(0.3)).decision_id, 0.5)
            await made.add_arm("first")
            await made.change_arm(3, PAUSED)
            before = lasting_keys(raw)
            for arm in range(4, 54):
                await made.add_arm("again")
                for _ in range(4):
                    await made.change_arm(arm, PAUSED)
                    await made.change_arm(arm, LIVE)
                await made.select(0.3, eligible=[arm])
                await made.change_arm(arm, RETIRED)
            # The decisions themselves are kept by time slot.
            assert {kind_of(key) for key in lasting_keys(raw) - before} <= {"decisions"}
            partition = await made.store.partition(made.tenant)
            assert {arm for ball in partition for arm in ball.arms} == {0, 1, 2, 3}

    asyncio.run(run())


def lasting_keys(raw: "redis.Redis") -> set[str]:
    """The keys that do not go away by themselves."""
    return {key.decode() for key in raw.scan_iter(count=1000) if raw.ttl(key) == -1}


def kind_of(key: str) -> str:
    """What the key holds."""
    return key.partition("}:")[2].split(":")[1]
