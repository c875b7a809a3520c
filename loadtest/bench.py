"""`zooming bench`: what a sub-partition takes, and what balls and decisions take in the store.

A flagged ball with 64 buckets and k = 4 holds 256 samples an arm. Two settings: the zigzag
environment, whose clusters stay few, and arms that are all different, so that every arm is compared
with every other (no noise, radius 0). Time is the best of three runs; memory is the peak that numpy
and Python allocate. The regret proxies are summed up as the engine does, beside the regret. For the
store, a private one is filled in invented time. A service of its own is asked over HTTP.
"""

import asyncio
import random
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadtest.bench_tenant import new_tenant
from loadtest.environments import bernoulli, continuum, finite_types, zigzag
from loadtest.many_arms import bench_many_arms
from loadtest.own_service import own_service
from loadtest.proxies import replay
from loadtest.side_by_side import bench_over_http, bench_side_by_side
from service.algorithm import SAMPLE, Config, Interval, sub_partition
from service.embedded import PrivateStore
from service.splitter import Splitter
from service.store import Store, Tenant, Wanted, new_decision_id

BUCKETS, K, NOISE = 64, 4, 0.01
ARMS = (100, 250, 500, 1000, 2500, 5000)
RUNS = 3
DECISIONS = 2000
_days = count(1)
TENANTS = 200
VARIANTS: dict[str, dict[str, Any]] = {
    "by chance": {"exploration_floor": 0.1},
    "context mapped": {"context_scale": {"kind": "linear", "low": 0.0, "high": 1.0}},
    "both": {
        "exploration_floor": 0.1,
        "context_scale": {"kind": "linear", "low": 0.0, "high": 1.0},
    },
    "logged": {"log_entries": 10**6},
}
NEW_TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": {"preset": "adaptive", "similarity": None},
    "simulation": {"similarity": {"kind": "learned"}},
    "simulation, no similarity": {},
}
PROXY_MARKS = (1_000, 3_000, 10_000, 30_000, 100_000)
PROXY_SEEDS = 3
PROXY_ENVIRONMENTS = {
    "zigzag, K = 50, σ = 1e-5": zigzag(50, noise=1e-5),
    "zigzag, K = 50, σ = 0.3": zigzag(50, noise=0.3),
    "continuum, K = 50, σ = 0.1": continuum(50, noise=0.1, lipschitz=1.0),
    "5 types, K = 50, σ = 0.3": finite_types(50, types=5, noise=0.3, lipschitz=1.0, seed=0),
    "Bernoulli zigzag, K = 20": bernoulli(zigzag(20, noise=0.0)),
}


def bench() -> None:
    """Prints each figure as it is measured."""
    _bench_sub_partition()
    _bench_proxies()
    with (
        TemporaryDirectory(prefix="zooming-bench-") as folder,
        PrivateStore(Path(folder)) as private,
    ):
        asyncio.run(_bench_store(private.url))
        for steps in (bench_many_arms, bench_side_by_side):
            asyncio.run(_bench_steps(private.url, steps))
    with TemporaryDirectory(prefix="zooming-bench-") as folder, own_service(0, folder) as url:
        asyncio.run(bench_over_http(url))


def _bench_proxies() -> None:
    print(f"\nThe regret proxies beside the regret, preset simulation, {PROXY_SEEDS} seeds\n")
    titles = f"{'trials':>8}{'regret':>9}{'upper':>9}{'estimate':>10}{'estimate/regret':>17}"
    print(f"{'environment':<30}{titles}")
    for name, environment in PROXY_ENVIRONMENTS.items():
        config = Config.resolve(
            arms=environment.arms,
            horizon=PROXY_MARKS[-1],
            noise=environment.noise,
            lipschitz=environment.lipschitz,
        )
        runs = [
            list(replay(environment, config, seed=seed, marks=PROXY_MARKS))
            for seed in range(PROXY_SEEDS)
        ]
        for marks in zip(*runs, strict=True):
            regret, upper, estimate = np.mean(
                [(mark.regret, mark.regret_upper, mark.regret_estimate) for mark in marks], axis=0
            )
            print(
                f"{name:<30}{marks[0].trials:>8}{regret:>9.0f}{upper:>9.0f}{estimate:>10.0f}"
                f"{estimate / regret:>17.2f}",
                flush=True,
            )


async def _bench_store(url: str) -> None:
    print("\nThe store")
    store, arms = Store(url), 10_000
    try:
        small = await _new_tenant(store, "small", arms=2)
        await _bytes_a_round(store, small, 100, own_ids=True)  # what all tenants share
        for rate in (1000, 100, 10, 1):
            taken, own = [
                await _bytes_a_decision(store, small, rate=rate, own_ids=own_ids)
                for own_ids in (False, True)
            ]
            print(
                f"a decision, at {rate:>4} a second   {taken:4.0f} bytes; "
                f"with an id of one's own {own:4.0f}"
            )
        for what, config in VARIANTS.items():
            variant = await _new_tenant(store, what.replace(" ", "-"), arms=2, **config)
            taken = await _bytes_a_decision(store, variant, rate=100, own_ids=False)
            print(f"the same, at 100 a second, {what:<17}{taken:4.0f} bytes")
        passing = await _new_tenant(store, "passing", arms=2)
        await _bytes_left(store, passing)  # what all tenants share
        left = median([await _bytes_left(store, passing) for _ in range(RUNS)])
        print(f"once closed and forgotten      {left:4.0f} bytes")
        for number, (what, config) in enumerate(NEW_TENANTS.items()):
            closed = await _closed_a_second(store, f"closing-{number}", config)
            print(f"closed with a default reward, {what:<26}{closed:6.0f} a second")
        for number, (what, config) in enumerate(NEW_TENANTS.items()):
            taken = await _bytes_a_tenant(store, f"tenant-{number}", config)
            print(f"a new tenant of 50 arms, {what:<26}{taken:6.0f} bytes")
        empty, started = (await store.server()).memory_bytes, time.perf_counter()
        large = await _new_tenant(store, "large", arms=arms)
        seconds, used = time.perf_counter() - started, (await store.server()).memory_bytes
        print(f"creating {arms} arms, {2 * arms} balls   {seconds:.2f} s")
        print(f"a ball of one arm              {(used - empty) / (2 * arms):4.0f} bytes")
        started = time.perf_counter()
        await store.directory.delete(large.name, incarnation=large.incarnation)
        print(f"deleting them                  {time.perf_counter() - started:.2f} s")
    finally:
        await store.close()


async def _bench_steps(url: str, steps: Callable[[Store], Awaitable[None]]) -> None:
    store = Store(url)
    try:
        await steps(store)
    finally:
        await store.close()


async def _new_tenant(store: Store, name: str, *, arms: int, **more: Any) -> Tenant:
    config = {
        "arms": arms,
        "preset": "simulation",
        "horizon": 100_000,
        "noise": NOISE,
        "similarity": {"kind": "none"},
        **more,
    }
    config = {name: value for name, value in config.items() if value is not None}
    return await new_tenant(store, name, config, now_ms=0)


async def _bytes_a_decision(store: Store, tenant: Tenant, *, rate: int, own_ids: bool) -> float:
    """The median of three rounds: in some, the table of all keys grows too."""
    return median([await _bytes_a_round(store, tenant, rate, own_ids) for _ in range(RUNS)])


async def _bytes_a_round(store: Store, tenant: Tenant, rate: int, own_ids: bool) -> float:
    # Each in a day of its own, so that no two share a time slot.
    start_ms = next(_days) * 86_400_000
    before = (await store.server()).memory_bytes
    for number in range(DECISIONS):
        now_ms = start_ms + number * 1000 // rate
        decision_id = f"order-{now_ms:016d}-{number}" if own_ids else new_decision_id(now_ms)
        raw = None if tenant.settings["context_scale"]["kind"] == "unit" else 0.5
        wanted = Wanted(decision_id=decision_id, x=0.5, raw=raw)
        await store.select(tenant, wanted, now_ms=now_ms)
    return ((await store.server()).memory_bytes - before) / DECISIONS


async def _bytes_left(store: Store, tenant: Tenant) -> float:
    """What a decision leaves behind."""
    before = (await store.server()).memory_bytes
    await _bytes_a_round(store, tenant, 100, own_ids=False)
    await _close_all(store, tenant)
    return ((await store.server()).memory_bytes - before) / DECISIONS


async def _close_all(store: Store, tenant: Tenant) -> None:
    splitter = Splitter(store, clock_ms=lambda: 2**42)
    more, slot, cursor = True, "", "0"
    while more:
        closed = await store.decisions.close(tenant, now_ms=2**42, slot=slot, cursor=cursor)
        more, slot, cursor = closed.more, closed.slot, closed.cursor
        if closed.due is not None:
            await splitter.split(tenant, ball=closed.due, wait_seconds=None)


async def _closed_a_second(store: Store, name: str, config: dict[str, Any]) -> float:
    """How fast the decisions of a tenant are closed whose rewards stay away."""
    chance = random.Random(0)
    tenant = await _new_tenant(store, name, arms=50, default_reward=0.0, **config)
    for _ in range(DECISIONS):
        wanted = Wanted(decision_id=new_decision_id(0), x=chance.random())
        await store.select(tenant, wanted, now_ms=0)
    started = time.perf_counter()
    await _close_all(store, tenant)
    return DECISIONS / (time.perf_counter() - started)


async def _bytes_a_tenant(store: Store, name: str, config: dict[str, Any]) -> float:
    await _new_tenant(store, name, arms=50, **config)  # what all tenants share
    before = (await store.server()).memory_bytes
    for number in range(TENANTS):
        await _new_tenant(store, f"{name}-{number}", arms=50, **config)
    return ((await store.server()).memory_bytes - before) / TENANTS


def _bench_sub_partition() -> None:
    print(f"Sub-partition of a ball with {BUCKETS} buckets and k = {K}\n")
    titles = f"{'samples':>10}{'clusters':>10}{'seconds':>10}{'peak MB':>9}"
    print(f"{'arms are':<14}{'arms':>6}{titles}")
    for name, cluster_ratio, noise in (("zigzag", 3 / 16, NOISE), ("all different", 0.0, 0.0)):
        for arms in ARMS:
            config = Config.resolve(
                arms=arms,
                horizon=100_000,
                noise=noise,
                buckets=BUCKETS,
                neighbours=K,
                cluster_ratio=cluster_ratio,
            )
            samples = _samples(arms)

            def run(
                config: Config = config, samples: NDArray[np.void] = samples, arms: int = arms
            ) -> int:
                left, right = sub_partition(
                    config, Interval(0, 0), arms=np.arange(arms), k=K, samples=samples
                )
                return int(left.max() + right.max()) + 2

            clusters = run()
            seconds = min(_seconds(run) for _ in range(RUNS))
            row = f"{name:<14}{arms:>6}{len(samples):>10}{clusters:>10}{seconds:>10.3f}"
            print(f"{row}{_peak_megabytes(run):>9.0f}", flush=True)


def _samples(arms: int) -> NDArray[np.void]:
    """A full flagged phase: K samples in every cell."""
    rng = np.random.default_rng(arms)
    environment = zigzag(arms, noise=NOISE)
    samples = np.empty(arms * BUCKETS * K, dtype=SAMPLE)
    cells = np.arange(len(samples)) // K
    samples["arm"], bucket = cells // BUCKETS, cells % BUCKETS
    samples["x"] = (bucket + rng.random(len(samples))) / BUCKETS
    peaks = environment.features["phi"][samples["arm"]]
    samples["reward"] = 1 - np.abs(samples["x"] - peaks) + rng.normal(0, NOISE, len(samples))
    return samples


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _peak_megabytes(run: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
