"""The client for asyncio: how a call is sent, and nothing about what it says.

It has a method for every call of `calls.py`, with the call's arguments and answer.
"""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from service.client import calls
from service.client.answers import LogEvent, Rewards, TenantState
from service.client.batches import AsyncRewardBatches
from service.client.caller import BATCH, LIMITS, RETRY, TIMEOUT_SECONDS, Caller, dress
from service.client.calls import Call, RewardItem
from service.client.lines import Lines
from service.client.tries import NoReply, Reply, Retry

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _awaited(
    make: Callable[Arguments, Call[Answer]],
) -> Callable[Concatenate["AsyncClient", Arguments], Coroutine[Any, Any, Answer]]:
    """A method of `AsyncClient` that sends the call."""

    async def method(
        self: "AsyncClient", /, *args: Arguments.args, **named: Arguments.kwargs
    ) -> Answer:
        return await self.send(make(*args, **named))

    dress(method, make)
    return method


class AsyncClient(Caller):
    """The same for asyncio; tasks may share it."""

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        retry: Retry = RETRY,
        timeout_seconds: float = TIMEOUT_SECONDS,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(url, key=key, retry=retry, timeout_seconds=timeout_seconds)
        self._http = http or httpx.AsyncClient(limits=LIMITS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    select = _awaited(calls.select)
    reward = _awaited(calls.reward)
    select_batch = _awaited(calls.select_batch)
    reward_batch = _awaited(calls.reward_batch)
    decision = _awaited(calls.decision)
    censor = _awaited(calls.censor)
    create_tenant = _awaited(calls.create_tenant)
    tenants = _awaited(calls.tenants)
    tenant = _awaited(calls.tenant)
    update_tenant = _awaited(calls.update_tenant)
    delete_tenant = _awaited(calls.delete_tenant)
    partition = _awaited(calls.partition)
    arms = _awaited(calls.arms)
    add_arm = _awaited(calls.add_arm)
    pause_arm = _awaited(calls.pause_arm)
    resume_arm = _awaited(calls.resume_arm)
    retire_arm = _awaited(calls.retire_arm)
    new_key = _awaited(calls.new_key)
    revoke_key = _awaited(calls.revoke_key)
    metrics = _awaited(calls.metrics)

    def rewards(self, tenant: str, *, most: int = BATCH) -> AsyncRewardBatches:
        """Gathers rewards into batches of so many; for use in an `async with` block."""

        async def send(items: Sequence[RewardItem]) -> Rewards:
            return await self.reward_batch(tenant, items=items)

        return AsyncRewardBatches(send, most=most)

    async def log(self, tenant: str, *, after: str | None = None) -> AsyncIterator[LogEvent]:
        """The decision log from its beginning, or after the event of this id."""
        async for line in self._lines(calls.log(tenant, after=after)):
            event: LogEvent = json.loads(line)
            yield event

    def export_tenant(self, tenant: str) -> AsyncIterator[bytes]:
        """All that a tenant is and has learned, line by line."""
        return self._lines(calls.export_tenant(tenant))

    async def import_tenant(self, tenant: str, *, lines: AsyncIterable[bytes]) -> TenantState:
        """A tenant made from the lines of an export."""
        return await self.send(calls.import_tenant(tenant), content=lines)

    async def ready(self) -> bool:
        """Whether the service and its store answer, asked once."""
        outcome = await self._try(calls.ready(), timeout_seconds=self._timeout_seconds)
        return isinstance(outcome, Reply) and outcome.status == 200

    async def send(
        self, call: Call[Answer], *, content: AsyncIterable[bytes] | None = None
    ) -> Answer:
        """Sends a call until it is answered, as far as it may be repeated."""
        tries = self._tries(call)
        while True:
            outcome = await self._try(call, timeout_seconds=tries.timeout_seconds, content=content)
            if tries.is_done(outcome):
                return tries.read(outcome)
            await asyncio.sleep(tries.wait_after(outcome))

    async def _try(
        self,
        call: Call[Any],
        *,
        timeout_seconds: float,
        content: AsyncIterable[bytes] | None = None,
    ) -> Reply | NoReply:
        request = self._request(call, timeout_seconds=timeout_seconds, content=content)
        try:
            return Reply.of(await self._http.request(**request))
        except httpx.RequestError as error:
            return NoReply.of(error)

    async def _lines(self, call: Call[None]) -> AsyncIterator[bytes]:
        tries, lines = self._tries(call), Lines(call)
        while True:
            request = self._request(call, timeout_seconds=tries.timeout_seconds, content=None)
            try:
                async with self._http.stream(**request) as response:
                    if response.status_code == 200:
                        async for chunk in response.aiter_bytes():
                            for line in lines.of(chunk):
                                yield line
                        for line in lines.rest():
                            yield line
                        return
                    await response.aread()
                    outcome: Reply | NoReply = Reply.of(response)
            except httpx.RequestError as error:
                outcome = lines.broken_off(error)
            await asyncio.sleep(tries.wait_after(outcome))
