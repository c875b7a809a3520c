"""Splits full balls: claims, takes the samples from the store, sub-partitions, hands children back.

Any worker may be asked to split any ball, any number of times: the claim lets one through, and a
worker that dies in between is replaced by whoever asks after its claim has run out. No daemon.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from service.algorithm import Config, sub_partition
from service.errors import StaleTenant, ZoomingError
from service.store import LEASE_MS, Children, Store, Tenant, pack_children
from service.store.records import BallRecord
from service.store.tenant import RETIRED

log = logging.getLogger("zooming")

_LONGEST_POLL_SECONDS = 0.05


class Splitter:
    """The splits that this worker has under way."""

    def __init__(
        self,
        store: Store,
        *,
        clock_ms: Callable[[], int],
        observe_seconds: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock_ms = clock_ms
        self._observe_seconds = observe_seconds
        self._under_way: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def split(
        self, tenant: Tenant, *, ball: int, wait_seconds: float | None, decision_id: str = ""
    ) -> None:
        """Has the ball split, and waits for it up to `wait_seconds` (`None`: to the end).

        The work goes on when the wait is over or the caller has gone away.
        """
        key = (tenant.incarnation, ball)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._see_through(tenant, ball, decision_id))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        await asyncio.wait({task}, timeout=wait_seconds)

    async def split_new_root(self, tenant: Tenant) -> None:
        """A root that needs no samples is split before anyone selects; one already split stays."""
        config = tenant.config
        if isinstance(config, Config) and not config.needs_samples(config.arms):
            await self.split(tenant, ball=0, wait_seconds=None)

    async def close(self) -> None:
        """Waits for the splits under way; they are short, and lost to no one if cut off."""
        if self._under_way:
            await asyncio.wait(set(self._under_way.values()), timeout=LEASE_MS / 1000)

    async def _see_through(self, tenant: Tenant, ball: int, decision_id: str) -> None:
        """Returns when the ball is split, by this worker or another."""
        about = {"tenant": tenant.name, "ball": ball, "decision_id": decision_id}
        try:
            poll_seconds = 0.001
            while True:
                token = secrets.token_hex(8)
                claim = await self._store.claim(
                    tenant, ball=ball, token=token, now_ms=self._clock_ms()
                )
                if claim.record is not None:
                    await self._split_claimed(tenant, ball, token, claim.record, about)
                elif claim.status == "gone":
                    return
                else:
                    await asyncio.sleep(poll_seconds)
                    poll_seconds = min(2 * poll_seconds, _LONGEST_POLL_SECONDS)
        except ZoomingError as error:
            log.error("split failed", extra={**about, "error": str(error)})
        except Exception:
            log.exception("split failed", extra=about)

    async def _split_claimed(
        self,
        tenant: Tenant,
        ball: int,
        token: str,
        record: BallRecord,
        about: dict[str, object],
    ) -> None:
        started = time.perf_counter()
        renewal = asyncio.create_task(self._renew(tenant, ball, token))
        try:
            arms, samples = await self._store.read_ball(tenant, ball=ball, record=record)
            children = await asyncio.to_thread(
                children_of, tenant, record=record, arms=arms, samples=samples
            )
            first = await self._store.stage(tenant, ball=ball, token=token, children=children)
            if first is None or not await self._store.publish(
                tenant, ball=ball, token=token, first=first, children=children
            ):
                return
            await self._take_out_retired(tenant, arms)
        finally:
            renewal.cancel()
        seconds = time.perf_counter() - started
        self._observe_seconds(seconds)
        log.info(
            "split",
            extra={
                **about,
                "depth": record.depth,
                "arms": len(arms),
                "samples": len(samples),
                "children": children.left + children.right,
                "ms": round(seconds * 1000, 1),
            },
        )

    async def _take_out_retired(self, tenant: Tenant, arms: NDArray[np.intp]) -> None:
        """Arms that were retired while their ball was split are in its children."""
        while True:
            current = await self._store.directory.current(tenant.name)
            if current.incarnation != tenant.incarnation or current.revision == tenant.revision:
                return
            try:
                for arm in arms.tolist():
                    if current.arm_states[arm] == RETIRED != tenant.arm_states[arm]:
                        await self._store.arms.settle(current, arm, now_ms=self._clock_ms())
            except StaleTenant:
                continue
            return

    async def _renew(self, tenant: Tenant, ball: int, token: str) -> None:
        while True:
            await asyncio.sleep(LEASE_MS / 3000)
            # A claim that could not be renewed shows when the children are staged.
            with suppress(ZoomingError):
                await self._store.claim(tenant, ball=ball, token=token, now_ms=self._clock_ms())


def children_of(
    tenant: Tenant,
    *,
    record: BallRecord,
    arms: NDArray[np.intp],
    samples: NDArray[np.void],
) -> Children:
    """The numeric work of a split, with nothing to wait for."""
    config, interval = tenant.zooming, record.interval
    kept = np.array([tenant.arm_states[arm] != RETIRED for arm in arms])
    if not kept.all():
        places = np.cumsum(kept) - 1
        samples = samples[kept[samples["arm"]]].copy()
        samples["arm"] = places[samples["arm"]]
    halves = sub_partition(config, interval, arms=arms[kept], k=int(record.k), samples=samples)
    return pack_children(config, interval, arms=arms, kept=kept, halves=halves)
