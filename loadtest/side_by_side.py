"""What selects and rewards take under `adaptive` beside `simulation`, as a ratio of wall times.

Two tenants play the zigzag in turn, a block each, so that whatever else the machine does meets
both: once on a store, where the time of a step has the round trip in it and what the store does,
and once over HTTP, as an app server would, with a client that costs next to nothing.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from statistics import median
from typing import Any, NamedTuple, Protocol

import numpy as np

from loadtest.bench_tenant import new_tenant
from loadtest.environments import zigzag
from loadtest.wire import Wire
from service.api.context import clock_ms
from service.client import AsyncClient
from service.splitter import Splitter
from service.store import Store, Tenant, Wanted, new_decision_id

ARMS = 50
NOISES = (1e-5, 0.1, 0.3)
BLOCK = 250
PARTS = (("first 2,500 trials", 10), ("next 5,000", 20))
TIMEOUT_SECONDS = 30.0


class Taken(NamedTuple):
    """The seconds of a block's selects, and of its rewards."""

    selects: float
    rewards: float


class Played(NamedTuple):
    """A decision, and the arm it is for."""

    decision_id: str
    arm: int


class Player(Protocol):
    """A way to play for one tenant."""

    async def select(self, x: float) -> Played:
        """The arm for a context."""

    async def reward(self, played: Played, reward: float) -> None:
        """Credits what the arm has earned."""

    async def catch_up(self) -> None:
        """Does what has to be done before the next trial, and is not the caller's to wait for."""


class StorePlayer:
    """Plays by the steps of the store."""

    def __init__(self, store: Store, tenant: Tenant) -> None:
        self._store, self._tenant = store, tenant
        self._splitter = Splitter(store, clock_ms=clock_ms)
        self._due: int | None = None

    async def select(self, x: float) -> Played:
        """One step."""
        wanted = Wanted(decision_id=new_decision_id(clock_ms()), x=x)
        selection = await self._store.select(self._tenant, wanted, now_ms=clock_ms())
        return Played(wanted.decision_id, selection.choices[0].arm)

    async def reward(self, played: Played, reward: float) -> None:
        """One step."""
        rewarded = await self._store.reward(
            self._tenant, decision_id=played.decision_id, reward=reward, now_ms=clock_ms()
        )
        self._due = rewarded.due

    async def catch_up(self) -> None:
        """Splits the ball that is due."""
        if self._due is not None:
            await self._splitter.split(self._tenant, ball=self._due, wait_seconds=None)


class HttpPlayer:
    """Plays by requests."""

    def __init__(self, wire: Wire, tenant: str) -> None:
        self._wire, self._tenant = wire, tenant
        self._select_head = wire.head("/select", headers={})
        self._reward_head = wire.head("/reward", headers={})

    async def select(self, x: float) -> Played:
        """One request."""
        answer = await self._post(self._select_head, {"context": x})
        return Played(answer["decision_id"], int(answer["arm"]))

    async def reward(self, played: Played, reward: float) -> None:
        """One request."""
        body = {"decision_id": played.decision_id, "reward": reward}
        await self._post(self._reward_head, body)

    async def catch_up(self) -> None:
        """The service does that by itself."""

    async def _post(self, head: bytes, body: Mapping[str, Any]) -> Any:
        answer = await self._wire.post(head, json.dumps({"tenant": self._tenant, **body}).encode())
        assert answer.status == 200, answer
        return json.loads(answer.body)


async def bench_side_by_side(store: Store) -> None:
    """Prints each figure as it is measured."""

    async def join(name: str, config: Mapping[str, Any]) -> Player:
        return StorePlayer(store, await new_tenant(store, name, config, now_ms=clock_ms()))

    await _compare("on the store", join)


async def bench_over_http(url: str) -> None:
    """The same of a service."""
    wire = Wire(url, timeout_seconds=TIMEOUT_SECONDS)

    async def join(name: str, config: Mapping[str, Any]) -> Player:
        async with AsyncClient(url) as client:
            await client.create_tenant(name, **config)
        return HttpPlayer(wire, name)

    await _compare("over HTTP", join)
    wire.close()


async def _compare(where: str, join: Callable[..., Awaitable[Player]]) -> None:
    print(f"\nadaptive beside simulation {where}, zigzag, K = {ARMS}: times as long\n")
    print(f"{'median of blocks':<30}{'select':>8}{'reward':>8}")
    for number, noise in enumerate(NOISES):
        players = []
        for preset in ("adaptive", "simulation"):
            told = {"arms": ARMS, "preset": preset, "horizon": 100_000, "noise": noise}
            players.append(await join(f"{preset}-{number}", told))
        ours, theirs = [_blocks(player, noise) for player in players]
        for part, blocks in PARTS:
            pairs = [(await anext(ours), await anext(theirs)) for _ in range(blocks)]
            selects = median(a.selects / b.selects for a, b in pairs)
            rewards = median(a.rewards / b.rewards for a, b in pairs)
            print(f"{f'σ = {noise:g}, {part}':<30}{selects:>8.2f}{rewards:>8.2f}", flush=True)


async def _blocks(player: Player, noise: float) -> AsyncIterator[Taken]:
    """One block after the other."""
    environment, rng = zigzag(ARMS, noise=noise), np.random.default_rng(0)
    while True:
        selects = rewards = 0.0
        for x in rng.random(BLOCK).tolist():
            started = time.perf_counter()
            played = await player.select(x)
            selects += time.perf_counter() - started
            reward = environment.reward(rng, x, played.arm)
            started = time.perf_counter()
            await player.reward(played, reward)
            rewards += time.perf_counter() - started
            await player.catch_up()
        yield Taken(selects, rewards)
