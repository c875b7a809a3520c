"""A typed function in front of every step of a request and of a split.

Times are arguments, so tests run in invented time. Every step is safe to repeat.
"""

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.algorithm import SAMPLE
from service.decision_ids import ranked_id
from service.errors import UnknownTenant
from service.store import keys
from service.store.arms import Arms
from service.store.children import Children
from service.store.connection import Connection, Observer, ServerState
from service.store.decisions import Decisions
from service.store.directory import Directory
from service.store.draws import draw, packed
from service.store.exporting import Export
from service.store.import_checks import CheckSettings
from service.store.importing import Import, finish_imports
from service.store.partition import PartitionBall, read_partition
from service.store.records import BallRecord
from service.store.tenant import Tenant

# A claim outlives its worker by this much; a living worker renews it.
LEASE_MS = 5_000
_ATTEMPTS = 2**24
_STAGED_MS = 3_600_000
_READ_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of a select: `n` arms for a context `x` in [0, 1], of those eligible.

    `raw` is the context as it was sent, if it is another; `eligible` are arms that are live, in
    ascending order, all of them if it is `None`.
    """

    decision_id: str
    x: float
    raw: float | None = None
    eligible: Sequence[int] | None = None
    n: int = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """One arm of the answer to a select."""

    decision_id: str
    arm: int
    ball: int
    phase: str
    propensity: float


@dataclass(frozen=True, slots=True)
class Selected:
    """The answer to a select: `selected`, `conflict` (another context) or `none_eligible`.

    `x` is the context that it was made for, also when the scale was another then. The choices are
    ranked, best first; `due` is the ball to be split, if any.
    """

    status: str
    at_ms: int = 0
    x: float = 0.0
    due: int | None = None
    choices: Sequence[Choice] = ()


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The answer to a reward.

    `applied`, `duplicate`, `conflict`, `censored`, `ignored`, `late` or `unknown_decision`.
    """

    status: str
    ball: int | None = None
    phase: str | None = None
    due: int | None = None
    stands: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim: `claimed` with the ball's record, `busy`, or `gone`."""

    status: str
    record: BallRecord | None = None


class Store:
    """All state of the service, on one Redis or Valkey."""

    def __init__(self, url: str, *, observer: Observer | None = None) -> None:
        self._connection = Connection(url, observer=observer)
        self._client = self._connection.client
        self.directory = Directory(self._connection)
        self.arms = Arms(self._connection, self.directory)
        self.decisions = Decisions(self._connection, self.directory)

    async def close(self) -> None:
        """Gives the connections back."""
        await self._connection.close()

    async def ping(self) -> None:
        """Raises `StoreUnavailable` unless the server answers and is done loading."""
        async with self._connection.in_time():
            await self._client.ping()

    async def server(self) -> ServerState:
        """The server's memory and durability."""
        return await self._connection.server()

    async def verify(self) -> None:
        """Raises `StoreUnsuitable` for a server that is too old or evicts keys, or other data."""
        await self._connection.verify()
        await self.directory.verify_format()

    async def install(self) -> None:
        """Gives the server the steps that it lacks, and takes those of other versions from it."""
        await self._connection.install()

    # -- the steps of a request

    async def select(self, tenant: Tenant, wanted: Wanted, *, now_ms: int) -> Selected:
        """The arms to play."""
        call = _select_call(tenant, wanted, now_ms=now_ms)
        reply = await self._connection.step("select", *call, rule=tenant.rule)
        return _selected(wanted.decision_id, self.directory.fresh(tenant, reply))

    async def select_all(
        self, wanted: Sequence[tuple[Tenant, Wanted]], *, now_ms: int
    ) -> list[Selected]:
        """The same for each, in one round trip; all tenants are of the same preset."""
        calls = [_select_call(*one, now_ms=now_ms) for one in wanted]
        replies = await self._connection.same_step("select", calls, rule=wanted[0][0].rule)
        return [
            _selected(one.decision_id, self.directory.fresh(tenant, reply))
            for (tenant, one), reply in zip(wanted, replies, strict=True)
        ]

    async def reward(
        self, tenant: Tenant, *, decision_id: str, reward: float, now_ms: int
    ) -> Rewarded:
        """Credits the reward, once."""
        call = _reward_call(tenant, decision_id, reward, now_ms=now_ms, attempt=new_attempt())
        reply = await self._connection.step("reward", *call, rule=tenant.rule)
        return _rewarded(self.directory.fresh(tenant, reply))

    async def reward_all(
        self, given: Sequence[tuple[Tenant, str, float]], *, now_ms: int, attempt: int
    ) -> list[Rewarded]:
        """The same for each decision id and reward; all tenants are of the same preset.

        With the same `attempt` again, what was applied is told as `applied` once more.
        """
        calls = [
            _reward_call(*one, now_ms=now_ms, attempt=(attempt + number) % _ATTEMPTS)
            for number, one in enumerate(given)
        ]
        replies = await self._connection.same_step("reward", calls, rule=given[0][0].rule)
        return [
            _rewarded(self.directory.fresh(tenant, reply))
            for (tenant, *_), reply in zip(given, replies, strict=True)
        ]

    async def censor(self, tenant: Tenant, *, decision_id: str, now_ms: int) -> str:
        """Closes a decision unlearned: `censored`, `conflict`, `late` or `unknown_decision`."""
        slot = tenant.slot_of(decision_id)
        call = tenant.key, tenant.revision, decision_id, slot, now_ms
        reply = await self._connection.step("censor", *call, rule=tenant.rule)
        return str(self.directory.fresh(tenant, reply)[0])

    async def contexts(self, tenant: Tenant) -> list[float]:
        """The contexts that were noted for the scale that is being learned."""
        async with self._connection.in_time():
            noted = await self._client.get(keys.derived(tenant.base, "contexts")) or b""
        return list(struct.unpack(f"<{len(noted) // 8}d", noted))

    async def forget_contexts(self, tenant: Tenant) -> None:
        """Gives back what was noted, once the scale is known."""
        async with self._connection.in_time():
            await self._client.unlink(keys.derived(tenant.base, "contexts"))

    # -- the steps of a split

    async def claim(self, tenant: Tenant, *, ball: int, token: str, now_ms: int) -> Claim:
        """Claims a full ball, or renews the claim that the token has."""
        status, *rest = await self._split_step("claim", tenant, ball, token, now_ms, LEASE_MS)
        if status == "claimed":
            return Claim(status, record=BallRecord.unpack(rest[0]))
        return Claim(status)

    async def read_ball(
        self, tenant: Tenant, *, ball: int, record: BallRecord
    ) -> tuple[NDArray[np.intp], NDArray[np.void]]:
        """The arm set and the samples of a ball."""
        buckets = tenant.zooming.parameters.buckets if record.k else 0
        wanted = [keys.derived(tenant.base, "samples", ball, bucket) for bucket in range(buckets)]
        bytes_a_bucket = 1 + int(record.samples) * SAMPLE.itemsize // max(1, buckets)
        at_once = 1 + _READ_BYTES // bytes_a_bucket
        async with self._connection.in_time():
            arms = await self._client.get(keys.derived(tenant.base, "arms", ball))
        if arms is None:
            raise UnknownTenant(tenant.name)
        stores: list[bytes | None] = []
        for start in range(0, buckets, at_once):
            async with self._connection.in_time():
                stores += await self._client.mget(wanted[start : start + at_once])
        samples = b"".join(store or b"" for store in stores)
        return np.frombuffer(arms, "<u4").astype(np.intp), np.frombuffer(samples, SAMPLE)

    async def stage(
        self, tenant: Tenant, *, ball: int, token: str, children: Children
    ) -> int | None:
        """Writes the children, out of reach; the first one's id, or `None` if the claim is lost."""
        first = None
        for chunk in children.chunks():
            status, *rest = await self._split_step(
                "stage",
                tenant,
                ball,
                token,
                len(children.records),
                chunk.place,
                chunk.offset,
                chunk.forward,
                _STAGED_MS,
                *chunk.children,
            )
            if status == "lost":
                return None
            first = int(rest[0])
        return first

    async def publish(
        self, tenant: Tenant, *, ball: int, token: str, first: int, children: Children
    ) -> bool:
        """Puts the staged children in the ball's place; false if the claim is lost."""
        kept_ms = tenant.window_ms + tenant.retention_ms
        status, *_ = await self._split_step(
            "publish", tenant, ball, token, first, children.left, children.right, kept_ms
        )
        return bool(status == "published")

    async def _split_step(self, step: str, tenant: Tenant, *args: Any) -> list[Any]:
        return await self._connection.step(step, tenant.key, tenant.incarnation, *args)

    # -- whole tenants

    async def export(self, tenant: Tenant, *, clock_ms: Callable[[], int]) -> Export:
        """The lines of an export; the tenant is frozen when this returns, until they are taken
        or it is closed.
        """
        export = Export(self._connection, tenant, clock_ms=clock_ms)
        await export.begin()
        return export

    async def import_tenant(
        self, name: str, *, lines: AsyncIterator[bytes], check_settings: CheckSettings
    ) -> Tenant:
        """A new tenant from the lines of an export; if anything is wrong, nothing is left of it."""
        importing = Import(self._connection, name)
        try:
            tenant = await importing.stage(lines, check_settings=check_settings)
            await self.directory.adopt(tenant)
        except BaseException:
            await asyncio.shield(importing.discard())
            raise
        await importing.finish()
        return tenant

    async def finish_imports(self) -> None:
        """Gives back what was left by imports that were cut short, once they are given up."""
        await finish_imports(self._connection)

    # -- the partition

    async def partition(self, tenant: Tenant) -> list[PartitionBall]:
        """Every active and flagged ball: always a whole partition."""
        return await read_partition(self._connection, tenant)


def _select_call(tenant: Tenant, wanted: Wanted, *, now_ms: int) -> tuple[Any, ...]:
    drawn = draw(tenant, eligible=wanted.eligible, n=wanted.n)
    return (
        tenant.key,
        tenant.revision,
        wanted.decision_id,
        tenant.slot_of(wanted.decision_id),
        _digits(wanted.x),
        "" if wanted.raw is None else _digits(wanted.raw),
        now_ms,
        wanted.n,
        b"" if wanted.eligible is None else packed(wanted.eligible),
        drawn.ways,
        drawn.arms,
        _digits(drawn.holdout),
        _digits(drawn.floor),
        drawn.playable,
        tenant.contexts_to_gather,
    )


def _selected(decision_id: str, reply: list[Any]) -> Selected:
    status, *rest = reply
    if status != "selected":
        return Selected(status)
    at_ms, x, due, *parts = rest
    choices = [
        Choice(
            ranked_id(decision_id, place), arm, ball, phase.decode(), propensity=float(propensity)
        )
        for place, (arm, ball, phase, propensity) in enumerate(_by_choice(parts), 1)
    ]
    return Selected(status, int(float(at_ms)), float(x), _ball_or_none(due), choices)


def _by_choice(parts: list[Any]) -> Iterator[list[Any]]:
    """What the reply has of each choice."""
    return (parts[start : start + 4] for start in range(0, len(parts), 4))


def new_attempt() -> int:
    """Tells a call that is repeated by the service from one that is repeated by its client."""
    return secrets.randbelow(_ATTEMPTS)


def _reward_call(
    tenant: Tenant, decision_id: str, reward: float, *, now_ms: int, attempt: int
) -> tuple[Any, ...]:
    slot = tenant.slot_of(decision_id)
    return tenant.key, tenant.revision, decision_id, slot, _digits(reward), now_ms, attempt


def _rewarded(reply: list[Any]) -> Rewarded:
    status, *rest = reply
    if status == "applied":
        ball, phase, due = rest
        return Rewarded(status, ball, phase.decode(), _ball_or_none(due))
    if status == "conflict":
        return Rewarded(status, stands=float(rest[0]))
    return Rewarded(status)


def _digits(value: float) -> str:
    """As many digits as the exact value needs; numpy's floats would spell their type too."""
    return repr(float(value))


def _ball_or_none(reply: Any) -> int | None:
    return None if reply == b"" else int(reply)
