"""A typed function in front of every step of a request and of a split.

Times are arguments, so tests run in invented time. Every step is safe to repeat.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.algorithm import SAMPLE
from service.decision_ids import issue_time_ms
from service.errors import StaleTenant, TenantFrozen, UnknownTenant
from service.store import keys
from service.store.children import Children
from service.store.connection import Connection, Observer, ServerState
from service.store.directory import Directory
from service.store.exporting import Export
from service.store.importing import Import, finish_imports
from service.store.partition import PartitionBall, read_partition
from service.store.records import BallRecord
from service.store.tenant import Tenant

# A claim outlives its worker by this much; a living worker renews it.
LEASE_MS = 5_000
# A forwarding table outlives the window by this much, for clocks that differ between hosts.
_SLACK_MS = 60_000
_STAGED_MS = 3_600_000
_READ_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Selected:
    """The answer to a select; `due` is the ball to be split, if any."""

    arm: int
    ball: int
    phase: str
    at_ms: int
    due: int | None


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The answer to a reward: `applied`, `duplicate`, `conflict`, `late` or `unknown_decision`."""

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

    # -- the steps of a request

    async def select(
        self, tenant: Tenant, *, decision_id: str, x: float, now_ms: int
    ) -> Selected | None:
        """The arm to play; `None` when the id was already used for another context."""
        call = _select_call(tenant, decision_id, x, now_ms=now_ms)
        return _selected(self._fresh(tenant, await self._connection.step("select", *call)))

    async def select_all(
        self, wanted: Sequence[tuple[Tenant, str, float]], *, now_ms: int
    ) -> list[Selected | None]:
        """The same for each tenant, decision id and context, in one round trip."""
        calls = [_select_call(*one, now_ms=now_ms) for one in wanted]
        replies = await self._connection.same_step("select", calls)
        return [
            _selected(self._fresh(tenant, reply))
            for (tenant, *_), reply in zip(wanted, replies, strict=True)
        ]

    async def reward(
        self, tenant: Tenant, *, decision_id: str, reward: float, now_ms: int
    ) -> Rewarded:
        """Credits the reward, once."""
        call = _reward_call(tenant, decision_id, reward, now_ms=now_ms, attempt=new_attempt())
        return _rewarded(self._fresh(tenant, await self._connection.step("reward", *call)))

    async def reward_all(
        self, given: Sequence[tuple[Tenant, str, float]], *, now_ms: int, attempt: int
    ) -> list[Rewarded]:
        """The same for each tenant, decision id and reward, in one round trip.

        With the same `attempt` again, what was applied is told as `applied` once more.
        """
        calls = [
            _reward_call(*one, now_ms=now_ms, attempt=(attempt + number) % 2**32)
            for number, one in enumerate(given)
        ]
        replies = await self._connection.same_step("reward", calls)
        return [
            _rewarded(self._fresh(tenant, reply))
            for (tenant, *_), reply in zip(given, replies, strict=True)
        ]

    def _fresh(self, tenant: Tenant, reply: list[Any]) -> list[Any]:
        """The reply, unless it says that the tenant has changed since it was read."""
        if reply[0] in ("stale", "unknown_tenant"):
            self.directory.forget(tenant.name)
            raise StaleTenant(tenant.name)
        if reply[0] == "frozen":
            raise TenantFrozen(tenant.name)
        return reply

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
        kept_ms = tenant.window_ms + _SLACK_MS
        status, *_ = await self._split_step(
            "publish", tenant, ball, token, first, children.left, children.right, kept_ms
        )
        return bool(status == "published")

    async def _split_step(self, step: str, tenant: Tenant, *args: Any) -> list[Any]:
        return await self._connection.step(step, tenant.key, tenant.incarnation, *args)

    # -- whole tenants

    async def export(self, tenant: Tenant, *, clock_ms: Callable[[], int]) -> AsyncGenerator[bytes]:
        """The lines of an export; the tenant is frozen when this returns, until they are taken."""
        export = Export(self._connection, tenant, clock_ms=clock_ms)
        await export.begin()
        return export.lines()

    async def import_tenant(self, name: str, *, lines: AsyncIterator[bytes]) -> Tenant:
        """A new tenant from the lines of an export; if anything is wrong, nothing is left of it."""
        importing = Import(self._connection, name)
        try:
            tenant = await importing.stage(lines)
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


def _select_call(tenant: Tenant, decision_id: str, x: float, *, now_ms: int) -> tuple[Any, ...]:
    slot = _slot(tenant, decision_id)
    # -0.0 is a legal way to write the left end; in a script it would name keys of its own.
    return tenant.key, tenant.revision, decision_id, slot, _digits(x + 0.0), now_ms


def _selected(reply: list[Any]) -> Selected | None:
    status, *rest = reply
    if status == "conflict":
        return None
    arm, ball, phase, at_ms, due = rest
    return Selected(arm, ball, phase.decode(), int(float(at_ms)), _ball_or_none(due))


def new_attempt() -> int:
    """Tells a call that is repeated by the service from one that is repeated by its client."""
    return secrets.randbits(32)


def _reward_call(
    tenant: Tenant, decision_id: str, reward: float, *, now_ms: int, attempt: int
) -> tuple[Any, ...]:
    slot = _slot(tenant, decision_id)
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


def _slot(tenant: Tenant, decision_id: str) -> str:
    at_ms = issue_time_ms(decision_id)
    return "" if at_ms is None else str(at_ms // tenant.slot_ms)


def _ball_or_none(reply: Any) -> int | None:
    return None if reply == b"" else int(reply)
