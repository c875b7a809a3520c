"""Drives the engine, at store level or over HTTP, beside the learner, one step after the other."""

import itertools
import json
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from service.algorithm import AdaptiveDecision, AnyConfig, Decision, NoArm, config_fields, resolve
from service.algorithm import learner_for as learner_of
from service.api.schemas import TenantConfig
from service.splitter import Splitter
from service.store import Rewarded, Store, Tenant, Wanted, new_decision_id

# The time at which all begins; not long ago, or services on the same store would close decisions.
NOW_MS = time.time_ns() // 1_000_000


def new_name() -> str:
    """A tenant name that nobody else uses."""
    return f"t-{secrets.token_hex(6)}"


def learner_for(body: Mapping[str, Any]) -> Any:
    """The sequential algorithm for a tenant's configuration."""
    return learner_of(config_of(body))


def config_of(body: Mapping[str, Any]) -> AnyConfig:
    """What a tenant's configuration means to the algorithm."""
    wanted = {
        name: value
        for name, value in body.items()
        if name == "arms" or name in (*config_fields("paper"), *config_fields("adaptive"))
    }
    arms = wanted.pop("arms")
    return resolve(arms=arms if isinstance(arms, int) else len(arms), **wanted)


@dataclass(frozen=True)
class Played:
    """What was selected, and under which id."""

    decision_id: str
    arm: int
    ball: int
    phase: str
    at_ms: int
    due: int | None


class Engine:
    """One tenant at store level, in invented time; splits are seen through before going on."""

    def __init__(self, store: Store, tenant: Tenant, clock: list[int]) -> None:
        self.store = store
        self.tenant = tenant
        self.clock = clock
        self.splitter = Splitter(store, clock_ms=lambda: self.clock[0])

    async def select(
        self, x: float, *, decision_id: str | None = None, eligible: Sequence[int] | None = None
    ) -> Played:
        """Selects, and waits for a split that is due."""
        played = await self.select_only(x, decision_id=decision_id, eligible=eligible)
        await self._split(played.due)
        return played

    async def select_only(
        self, x: float, *, decision_id: str | None = None, eligible: Sequence[int] | None = None
    ) -> Played:
        """Selects, and leaves a split that is due to others."""
        wanted = Wanted(
            decision_id=decision_id or new_decision_id(self.clock[0]), x=x, eligible=eligible
        )
        selected = await self.store.select(self.tenant, wanted, now_ms=self.clock[0])
        if selected.status == "none_eligible":
            raise NoArm
        (choice,) = selected.choices
        return Played(
            decision_id=choice.decision_id,
            arm=choice.arm,
            ball=choice.ball,
            phase=choice.phase,
            at_ms=selected.at_ms,
            due=selected.due,
        )

    async def reward(self, decision_id: str, reward: float) -> Rewarded:
        """Rewards, and waits for a split that is due."""
        rewarded = await self.store.reward(
            self.tenant, decision_id=decision_id, reward=reward, now_ms=self.clock[0]
        )
        await self._split(rewarded.due)
        return rewarded

    async def censor(self, decision_id: str) -> str:
        """What has become of the decision."""
        return await self.store.censor(self.tenant, decision_id=decision_id, now_ms=self.clock[0])

    async def rank(
        self, x: float, *, n: int, decision_id: str, eligible: Sequence[int] | None = None
    ) -> list[Played]:
        """Several arms, best first, none if no arm may be played; waits for a split that is due."""
        wanted = Wanted(decision_id=decision_id, x=x, eligible=eligible, n=n)
        selected = await self.store.select(self.tenant, wanted, now_ms=self.clock[0])
        await self._split(selected.due)
        return [
            Played(
                decision_id=choice.decision_id,
                arm=choice.arm,
                ball=choice.ball,
                phase=choice.phase,
                at_ms=selected.at_ms,
                due=selected.due,
            )
            for choice in selected.choices
        ]

    async def try_select(
        self, x: float, *, decision_id: str, eligible: Sequence[int] | None = None
    ) -> Played | None:
        """The same; `None` when no arm may be played."""
        try:
            return await self.select(x, decision_id=decision_id, eligible=eligible)
        except NoArm:
            return None

    async def close_all(self) -> None:
        """Closes all decisions that are due, and sees splits through that are due then."""
        slot, cursor, more = "", "0", True
        while more:
            closed = await self.store.decisions.close(
                self.tenant, now_ms=self.clock[0], slot=slot, cursor=cursor
            )
            slot, cursor, more = closed.slot, closed.cursor, closed.more
            await self._split(closed.due)

    async def add_arm(self, name: str) -> None:
        """Adds an arm."""
        await self.store.arms.add(self.tenant, name, now_ms=self.clock[0])
        await self.refresh()

    async def change_arm(self, arm: int, state: int) -> None:
        """Pauses, resumes or retires an arm, and sees splits through that are due then."""
        await self.store.arms.change(self.tenant, arm, state=state, now_ms=self.clock[0])
        await self.refresh()
        for ball in await self.store.arms.settle(self.tenant, arm, now_ms=self.clock[0]):
            await self._split(ball)

    async def refresh(self) -> None:
        """Reads the tenant again."""
        self.tenant = await self.store.directory.read(self.tenant.name)

    def reopen(self, store: Store) -> None:
        """Goes on with another connection."""
        self.store = store
        self.splitter = Splitter(store, clock_ms=lambda: self.clock[0])

    async def _split(self, ball: int | None) -> None:
        if ball is not None:
            await self.splitter.split(self.tenant, ball=ball, wait_seconds=None)


@asynccontextmanager
async def engine(url: str, body: Mapping[str, Any]) -> AsyncIterator[Engine]:
    """A new tenant on the store, its root split if it needs no samples."""
    store = Store(url)
    try:
        yield await new_engine(store, body)
    finally:
        await store.close()


async def new_engine(store: Store, body: Mapping[str, Any]) -> Engine:
    """A new tenant on an open store."""
    tenant, created = await store.directory.create(
        new_name(),
        body_digest="",
        settings=TenantConfig.model_validate(body).settings(),
        key_hash="",
        now_ms=NOW_MS,
    )
    assert created
    made = Engine(store, tenant, [NOW_MS])
    await made.splitter.split_new_root(tenant)
    return made


async def counters_of(store: Store, tenant: Tenant) -> Mapping[str, int]:
    """What the store counts of a tenant."""
    return (await store.directory.stats(tenant, now_ms=NOW_MS)).counters


def same(decision: Decision | AdaptiveDecision, selected: Played | Mapping[str, Any]) -> bool:
    """Whether both played the same arm in the same ball and phase."""
    mine = (decision.arm, decision.ball.id, decision.phase)
    if isinstance(selected, Played):
        return mine == (selected.arm, selected.ball, selected.phase)
    return mine == (int(selected["arm"]), selected["ball"], selected["phase"])


RewardOf = Callable[[random.Random, float], float]


def any_reward(chance: random.Random, x: float) -> float:
    """Also the ends of the range, what lies beyond, and what depends on the context."""
    return chance.choice([0.0, 1.0, chance.uniform(-0.5, 1.5), x])


def zero_or_one(chance: random.Random, x: float) -> float:
    """Mostly 1."""
    return float(chance.random() < 0.6 + 0.4 * x)


async def play_in_tandem(
    made: Engine,
    learner: Any,
    plays: Sequence[float],
    chance: random.Random,
    delays: str,
    reward_of: RewardOf = any_reward,
) -> None:
    """Plays all contexts on both; each step, some of the rewards that are due are handed in.

    `delays` is "in step", "late", or "lost" when some rewards never come, half of them announced.
    """
    scale = made.tenant.reward_scale
    open_plays: list[tuple[Any, str]] = []
    for trial, x in enumerate(plays):
        decision, selected = learner.select(x), await made.select(x)
        assert same(decision, selected), f"trial {trial}: {decision} but {selected}"
        open_plays.append((decision, selected.decision_id))
        while open_plays and (delays == "in step" or chance.random() < 0.5):
            played, decision_id = open_plays.pop(chance.randrange(len(open_plays)))
            if delays == "lost" and chance.random() < 0.3:
                if chance.random() < 0.5:
                    learner.abandon(played)
                    assert await made.censor(decision_id) == "censored"
                continue
            value = reward_of(chance, played.x)
            learner.reward(played, (value - scale.low) / scale.span)
            rewarded = await made.reward(decision_id, value)
            assert rewarded.status == "applied"


class HttpClient:
    """A plain HTTP client with a kept-alive connection for each address given."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._hosts = [HTTPConnection(urlsplit(url).netloc, timeout=30) for url in urls]
        self._turn = 0
        # All at once: a worker that is busy with one leaves the next to another.
        with ThreadPoolExecutor(len(self._hosts)) as pool:
            list(pool.map(self._greet, self._hosts))

    @staticmethod
    def _greet(host: HTTPConnection) -> None:
        for _ in range(10):
            host.request("GET", "/health/ready")
            host.getresponse().read()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON; each call takes the next connection in turn."""
        host = self._hosts[self._turn % len(self._hosts)]
        self._turn += 1
        host.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = host.getresponse()
        content = answer.read()
        assert answer.status < 300, content
        return json.loads(content) if content else None

    def close(self) -> None:
        """Closes the connections."""
        for host in self._hosts:
            host.close()


def replay_over_http(
    client: HttpClient,
    body: Mapping[str, Any],
    *,
    trials: int,
    splits: int,
    contexts: Callable[[], float],
    reward: Callable[[float, int], float],
) -> Any:
    """Plays on a new tenant and on the learner, and holds the one to the other.

    For at least so many trials, and until there were so many splits.
    """
    name, learner = new_name(), learner_for(body)
    client.call("PUT", f"/tenants/{name}", body)
    for trial in itertools.count():
        if trial >= trials and learner.splits >= splits:
            break
        x = contexts()
        decision = learner.select(x)
        selected = client.call("POST", "/select", {"tenant": name, "context": x})
        assert same(decision, selected), f"{body}, trial {trial}: {decision} but {selected}"
        value = reward(x, decision.arm)
        learner.reward(decision, value)
        client.call(
            "POST",
            "/reward",
            {"tenant": name, "decision_id": selected["decision_id"], "reward": value},
        )
    return learner
