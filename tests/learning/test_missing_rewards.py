"""When rewards stay away (ALGORITHM.md, section 4a): nobody holds up the others."""

import asyncio
from collections import Counter
from typing import Any

import numpy as np

from tests.support.engine import Engine, counters_of, engine

BODY: dict[str, Any] = {
    "arms": 5,
    "preset": "simulation",
    "horizon": 10_000,
    "noise": 0.1,
    "neighbours": 3,
    "buckets": 2,
    "cluster_ratio": 0.0,
}
SILENT = 2
ISSUE_LIMIT = 4 * 3 * 2
UNREWARDED_SELECTS = 16


async def play(made: Engine, contexts: "np.ndarray[Any, Any]", *, silent: int) -> Counter[Any]:
    """Plays and rewards all arms but the silent one; how often each was played, by phase."""
    plays: Counter[Any] = Counter()
    for x in contexts.tolist():
        selected = await made.select(x)
        plays[selected.phase, selected.arm] += 1
        if selected.arm != silent:
            await made.reward(selected.decision_id, selected.arm / 10)
    return plays


def test_a_flagged_ball_sets_a_silent_arm_aside(store_url: str) -> None:
    """It is asked `patience·k·m` times, then the ball is split with the arm as its own cluster."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            rng = np.random.default_rng(0)
            plays = await play(made, rng.random(200), silent=SILENT)
            counters = await counters_of(made.store, made.tenant)
            assert counters["splits"] >= 1
            # One more: the play that found the ball full, whoever's turn it was.
            assert plays["flagged", SILENT] <= ISSUE_LIMIT + 1
            partition = await made.store.partition(made.tenant)
            assert sum(ball.interval.width for ball in partition if ball.arms == [SILENT]) == 1.0

    asyncio.run(run())


def test_an_active_ball_without_rewards_steps_back(store_url: str) -> None:
    """Each of its balls gets 16 selects; after that the rewarded ones have all the traffic."""

    async def run() -> None:
        body = BODY | {"similarity": {"kind": "none"}}
        async with engine(store_url, body) as made:
            rng = np.random.default_rng(0)
            plays = await play(made, rng.random(400), silent=SILENT)
            assert plays["active", SILENT] == 2 * UNREWARDED_SELECTS
            # However bad the others turn out, it stays behind them.
            for _ in range(50):
                selected = await made.select(0.1)
                assert selected.arm != SILENT
                await made.reward(selected.decision_id, -100.0)

    asyncio.run(run())


def test_the_first_reward_brings_a_silent_ball_back(store_url: str) -> None:
    """However late it comes."""

    async def run() -> None:
        body = BODY | {"arms": 2, "similarity": {"kind": "none"}}
        async with engine(store_url, body) as made:
            silent = []
            for _ in range(60):
                selected = await made.select(0.3)
                if selected.arm == 1:
                    silent.append(selected.decision_id)
                else:
                    await made.reward(selected.decision_id, 0.1)
            assert len(silent) == UNREWARDED_SELECTS
            await made.reward(silent[0], 1.0)
            assert (await made.select(0.3)).arm == 1

    asyncio.run(run())


def test_selects_in_flight_spread_over_unrewarded_balls(store_url: str) -> None:
    """Without any reward, each ball of the context is selected equally often."""

    async def run() -> Counter[int]:
        body = BODY | {"similarity": {"kind": "none"}}
        async with engine(store_url, body) as made:
            return Counter([(await made.select(0.7)).ball for _ in range(100)])

    plays = asyncio.run(run())
    assert sorted(plays.values()) == [20] * 5


def test_a_full_ball_plays_all_arms_in_turn_until_it_is_split(store_url: str) -> None:
    """A ball whose claimant is at work does not ask for samples any more."""

    async def run() -> None:
        async with engine(store_url, BODY | {"buckets": 1, "neighbours": 1}) as made:
            now_ms = made.clock[0]
            due = None
            for trial in range(5):
                selected = await made.select_only(trial / 5)
                rewarded = await made.store.reward(
                    made.tenant, decision_id=selected.decision_id, reward=0.5, now_ms=now_ms
                )
                due = rewarded.due
            assert due == 0
            claim = await made.store.claim(made.tenant, ball=0, token="other", now_ms=now_ms)
            assert claim.status == "claimed"
            played = []
            for _ in range(10):
                selected = await made.select_only(0.5)
                assert selected.due is None, "someone is at work on it"
                assert selected.phase == "flagged"
                played.append(selected.arm)
            assert played == [0, 1, 2, 3, 4] * 2
            # The claim runs out: the next one that meets the ball is asked to take it over.
            made.clock[0] += 10_000
            assert (await made.select(0.5)).due == 0
            counters = await counters_of(made.store, made.tenant)
            assert counters["splits"] == 1

    asyncio.run(run())
