"""`select` and `reward` cost O(depth · log balls): counted in commands that the server runs.

The number of commands a call makes must not depend on the number of arms or balls, and each command
that it makes must itself be O(log n) or better in what grows.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import redis

from service.algorithm.partition import MOST_BALLS
from tests.support.engine import counters_of, engine

TRIALS = 150
# Under the preset `adaptive` a reward ranks at most all balls of three curves, each with two
# commands, after it has split some of one. A ball that stood before takes four: at most half of as
# many as there may be, since each split makes one more.
MOST_TO_LEARN = 3 * 2 * MOST_BALLS + 4 * MOST_BALLS // 2 + 40
# The worst cases are a select of a ball that was never selected, and a reward that flags its ball.
MOST_COMMANDS = 24
# All that the steps may call on the hot path: nothing here walks over balls, arms or decisions.
# ZRANGE asks for one member, ZREVRANGEBYSCORE has LIMIT 1, HMGET names a field for each depth,
# UNLINK frees in the background, BITPOS scans an arm set at a bit an arm (6 KB for 50,000 arms).
CHEAP = {
    "append", "bitfield", "bitpos", "fcall", "getrange", "get", "hdel", "hget", "hincrby",
    "hmget", "hset", "pexpire", "set", "setbit", "setrange", "zadd", "zrange", "zrem",
    "zrevrangebyscore",
}  # fmt: skip


async def commands_of(
    client: "redis.Redis", call: Callable[[], Awaitable[Any]]
) -> tuple[Any, dict[str, int]]:
    """The call's result, and how often it ran each command."""
    client.config_resetstat()
    result = await call()
    stats: dict[str, Any] = client.info("commandstats")
    counts = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}
    return result, {
        name: n for name, n in counts.items() if not name.startswith(("config", "info"))
    }


def worst(url: str, client: "redis.Redis", body: dict[str, Any]) -> tuple[int, int, int]:
    """The most commands that one select and one reward ran, and the number of balls in the end."""

    async def run() -> tuple[int, int, int]:
        async with engine(url, body) as made:
            chance = random.Random(0)
            most = {"select": 0, "reward": 0}
            # Once, so that the steps are known to the server.
            await made.reward((await made.select(0.5)).decision_id, 0.5)
            for _ in range(TRIALS):
                x = chance.random()
                selected, counts = await commands_of(client, partial(made.select_only, x))
                assert set(counts) <= CHEAP, set(counts) - CHEAP
                most["select"] = max(most["select"], sum(counts.values()))
                rewarded, counts = await commands_of(
                    client,
                    partial(
                        made.store.reward,
                        made.tenant,
                        decision_id=selected.decision_id,
                        reward=x,
                        now_ms=made.clock[0],
                    ),
                )
                assert set(counts) <= CHEAP, set(counts) - CHEAP
                most["reward"] = max(most["reward"], sum(counts.values()))
                if rewarded.due is not None:
                    await made.splitter.split(made.tenant, ball=rewarded.due, wait_seconds=None)
            counters = await counters_of(made.store, made.tenant)
            return most["select"], most["reward"], counters["active"] + counters["flagged"]

    return asyncio.run(run())


def test_commands_do_not_grow_with_arms_or_balls(store_url: str, raw: "redis.Redis") -> None:
    """10 arms against 50,000 and the 100,000 balls that their first split makes."""
    body = {
        "arms": 10,
        "preset": "simulation",
        "horizon": 10_000,
        "noise": 0.1,
        "flag_coefficient": 0.05,
    }
    small_select, small_reward, _ = worst(store_url, raw, body | {"neighbours": 1})
    none = {"similarity": {"kind": "none"}}
    few_select, few_reward, _ = worst(store_url, raw, body | none)
    many_select, many_reward, balls = worst(store_url, raw, body | none | {"arms": 50_000})
    assert balls >= 100_000
    assert many_select <= max(small_select, few_select) <= MOST_COMMANDS
    assert many_reward <= max(small_reward, few_reward) <= MOST_COMMANDS


def test_nor_do_those_of_adaptive(store_url: str, raw: "redis.Redis") -> None:
    """Arms that are not tried cost nothing, and a curve is bounded."""
    body = {"noise": 1e-5, "horizon": 10_000}
    few_select, few_reward, balls = worst(store_url, raw, body | {"arms": 10})
    many_select, many_reward, _ = worst(store_url, raw, body | {"arms": 50_000})
    assert balls >= 10 * MOST_BALLS / 2
    assert max(few_select, many_select) <= MOST_COMMANDS
    assert max(few_reward, many_reward) <= MOST_TO_LEARN
