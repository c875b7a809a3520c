"""What selects and rewards take under `adaptive` beside `simulation`, as a ratio of wall times.

Two tenants play the zigzag in turn, a trial each, so that whatever else the machine does meets
both: once on a store, where the time of a step has the round trip in it and what the store does,
and once over HTTP, as an app server would, with a client that costs next to nothing.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

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
PARTS = ("first 2,500 trials", "next 2,500")
BLOCKS = 10
TIMEOUT_SECONDS = 30.0


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


class Side:
    """A player in its environment."""

    def __init__(self, player: Player, noise: float) -> None:
        self._player, self._environment = player, zigzag(ARMS, noise=noise)
        self._rng = np.random.default_rng(0)

    async def play(self) -> tuple[float, float]:
        """One trial: the seconds of its select, and of its reward."""
        x, started = self._rng.random(), time.perf_counter()
        played = await self._player.select(x)
        selected = time.perf_counter()
        reward = self._environment.reward(self._rng, x, played.arm)
        earned = time.perf_counter()
        await self._player.reward(played, reward)
        rewarded = time.perf_counter()
        await self._player.catch_up()
        return selected - started, rewarded - earned


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
        sides = []
        for preset in ("adaptive", "simulation"):
            told = {"arms": ARMS, "preset": preset, "horizon": 100_000, "noise": noise}
            sides.append(Side(await join(f"{preset}-{number}", told), noise))
        for part in PARTS:
            ratios = [await _ratios(*sides) for _ in range(BLOCKS)]
            selects, rewards = np.median(ratios, axis=0)
            print(f"{f'σ = {noise:g}, {part}':<30}{selects:>8.2f}{rewards:>8.2f}", flush=True)


async def _ratios(ours: Side, theirs: Side) -> NDArray[np.float64]:
    """How many times as long our selects of a block take, and our rewards."""
    our_seconds, their_seconds = np.zeros(2), np.zeros(2)
    for _ in range(BLOCK // 2):  # each follows itself as often as the other
        our_seconds += await ours.play()
        their_seconds += await theirs.play()
        their_seconds += await theirs.play()
        our_seconds += await ours.play()
    ratios: NDArray[np.float64] = our_seconds / their_seconds
    return ratios
