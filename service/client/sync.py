"""The client that waits for each answer: how a call is sent, and nothing about what it says.

It has a method for every call of `calls.py`, with the call's arguments and answer.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from service.client import calls
from service.client.answers import LogEvent, Rewards, TenantState
from service.client.batches import RewardBatches
from service.client.caller import BATCH, LIMITS, RETRY, TIMEOUT_SECONDS, Caller, dress
from service.client.calls import Call, RewardItem
from service.client.lines import Lines
from service.client.tries import NoReply, Reply, Retry

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _sent(
    make: Callable[Arguments, Call[Answer]],
) -> Callable[Concatenate["Client", Arguments], Answer]:
    """A method of `Client` that sends the call."""

    def method(self: "Client", /, *args: Arguments.args, **named: Arguments.kwargs) -> Answer:
        return self.send(make(*args, **named))

    dress(method, make)
    return method


class Client(Caller):
    """Calls a service and waits for each answer; threads may share it.

    `key` is the admin key or the tenant's. Give an httpx client of your own for proxies,
    certificates or limits; it is closed with this one.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        retry: Retry = RETRY,
        timeout_seconds: float = TIMEOUT_SECONDS,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(url, key=key, retry=retry, timeout_seconds=timeout_seconds)
        self._http = http or httpx.Client(limits=LIMITS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    select = _sent(calls.select)
    reward = _sent(calls.reward)
    select_batch = _sent(calls.select_batch)
    reward_batch = _sent(calls.reward_batch)
    decision = _sent(calls.decision)
    censor = _sent(calls.censor)
    create_tenant = _sent(calls.create_tenant)
    tenants = _sent(calls.tenants)
    tenant = _sent(calls.tenant)
    update_tenant = _sent(calls.update_tenant)
    delete_tenant = _sent(calls.delete_tenant)
    partition = _sent(calls.partition)
    arms = _sent(calls.arms)
    add_arm = _sent(calls.add_arm)
    pause_arm = _sent(calls.pause_arm)
    resume_arm = _sent(calls.resume_arm)
    retire_arm = _sent(calls.retire_arm)
    new_key = _sent(calls.new_key)
    revoke_key = _sent(calls.revoke_key)
    metrics = _sent(calls.metrics)

    def rewards(self, tenant: str, *, most: int = BATCH) -> RewardBatches:
        """Gathers rewards into batches of so many; for use in a `with` block."""

        def send(items: Sequence[RewardItem]) -> Rewards:
            return self.reward_batch(tenant, items=items)

        return RewardBatches(send, most=most)

    def log(self, tenant: str, *, after: str | None = None) -> Iterator[LogEvent]:
        """The decision log from its beginning, or after the event of this id."""
        for line in self._lines(calls.log(tenant, after=after)):
            event: LogEvent = json.loads(line)
            yield event

    def export_tenant(self, tenant: str) -> Iterator[bytes]:
        """All that a tenant is and has learned, line by line."""
        return self._lines(calls.export_tenant(tenant))

    def import_tenant(self, tenant: str, *, lines: Iterable[bytes]) -> TenantState:
        """A tenant made from the lines of an export."""
        return self.send(calls.import_tenant(tenant), content=lines)

    def ready(self) -> bool:
        """Whether the service and its store answer, asked once."""
        outcome = self._try(calls.ready(), timeout_seconds=self._timeout_seconds)
        return isinstance(outcome, Reply) and outcome.status == 200

    def send(self, call: Call[Answer], *, content: Iterable[bytes] | None = None) -> Answer:
        """Sends a call until it is answered, as far as it may be repeated."""
        tries = self._tries(call)
        while True:
            outcome = self._try(call, timeout_seconds=tries.timeout_seconds, content=content)
            if tries.is_done(outcome):
                return tries.read(outcome)
            time.sleep(tries.wait_after(outcome))

    def _try(
        self,
        call: Call[Any],
        *,
        timeout_seconds: float,
        content: Iterable[bytes] | None = None,
    ) -> Reply | NoReply:
        request = self._request(call, timeout_seconds=timeout_seconds, content=content)
        try:
            return Reply.of(self._http.request(**request))
        except httpx.RequestError as error:
            return NoReply.of(error)

    def _lines(self, call: Call[None]) -> Iterator[bytes]:
        tries, lines = self._tries(call), Lines(call)
        while True:
            request = self._request(call, timeout_seconds=tries.timeout_seconds, content=None)
            try:
                with self._http.stream(**request) as response:
                    if response.status_code == 200:
                        for chunk in response.iter_bytes():
                            yield from lines.of(chunk)
                        yield from lines.rest()
                        return
                    response.read()
                    outcome: Reply | NoReply = Reply.of(response)
            except httpx.RequestError as error:
                outcome = lines.broken_off(error)
            time.sleep(tries.wait_after(outcome))
