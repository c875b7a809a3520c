"""One process of a load test: its trials against the service, and a tally of what it saw.

Open loop: each trial begins when it is due, however many are under way. Closed loop: each client
waits for its answers. Either way a request counts from when it was due, is sent once, and its
failure is counted, not repaired. Rewards that come late hold up nobody.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loadtest.plan import Access, Plan
from loadtest.tally import FLUSH_SECONDS, REWARD, SELECT, TIMEOUT, UNREADABLE, Fate, Tally
from loadtest.traffic import Trial
from loadtest.wire import Answer, NoAnswer, Wire

# How long rewards that are still to come are waited for at the end.
SETTLE_SECONDS = 60.0


class Replay:
    """The trials of one process."""

    def __init__(
        self, plan: Plan, *, process: int, tenants: Sequence[Access], flush: Callable[[Tally], None]
    ) -> None:
        self.plan = plan
        self._flush = flush
        self._tally = Tally(process)
        self._tenants = tenants
        self._clients = plan.clients_of(process)
        traffic = plan.traffic_of(process)
        self._trials = itertools.islice(traffic.trials(), plan.trials_of(process))
        # Rewards are drawn as answers come; all else was drawn before.
        self._rng = np.random.default_rng(traffic.seed.spawn(1)[0])
        self._wire = Wire(plan.url, timeout_seconds=plan.timeout_seconds)
        self._heads = {
            (call, number): self._wire.head(
                f"/{call}", headers={"Authorization": f"Bearer {tenant.key}"}
            )
            for number, tenant in enumerate(tenants)
            for call in (SELECT, REWARD)
        }
        self._awaiting: set[asyncio.Task[Any]] = set()  # tasks whose reward is not due yet
        self._tasks = asyncio.TaskGroup()
        self._sending: asyncio.Task[None] | None = None
        self._stopped = False
        self._cpu_start = 0.0

    async def run(self, start: float) -> None:
        """Runs from `start`, a time of the monotonic clock, until all is sent and answered."""
        self._cpu_start = time.process_time()
        flushing = asyncio.create_task(self._flush_regularly(start))
        try:
            async with self._tasks:
                self._sending = self._tasks.create_task(self._send(start))
                await asyncio.wait([self._sending])
                asyncio.get_running_loop().call_later(SETTLE_SECONDS, self.stop)
        finally:
            flushing.cancel()
            self._hand_over()
            self._wire.close()

    def stop(self) -> None:
        """Ends it soon: nothing new is sent, what is under way is waited for."""
        self._stopped = True
        if self._sending is not None and self.plan.rate is not None:
            self._sending.cancel()
        for task in self._awaiting:
            task.cancel()

    async def _send(self, start: float) -> None:
        await asyncio.sleep(start - time.monotonic())
        end = start + self.plan.seconds if self.plan.seconds is not None else float("inf")
        if self.plan.rate is not None:
            await self._open_loop(start, end)
        else:
            await asyncio.gather(*(self._client(end) for _ in range(self._clients)))

    async def _open_loop(self, start: float, end: float) -> None:
        for trial in self._trials:
            due = start + trial.at_seconds
            if due >= end:
                return
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._tasks.create_task(self._trial(trial, due=due))

    async def _client(self, end: float) -> None:
        for trial in self._trials:
            if self._stopped or time.monotonic() >= end:
                return
            await self._trial(trial, due=time.monotonic())

    async def _trial(self, trial: Trial, *, due: float) -> None:
        body = {"tenant": self._tenants[trial.tenant].name, "context": trial.context}
        answer = await self._call(SELECT, trial, body, due=due)
        if answer is None:
            return
        arm = int(answer["arm"])
        self._tally.learning.learn(trial, arm=arm)
        if trial.lost:
            self._tally.lost += 1
            return
        reward = self._reward(trial, arm, answer["decision_id"])
        if trial.delay_seconds and self.plan.rate is None:
            self._tasks.create_task(reward)
        else:
            await reward

    async def _reward(self, trial: Trial, arm: int, decision_id: str) -> None:
        due = time.monotonic() + trial.delay_seconds
        if trial.delay_seconds and not await self._wait_until(due):
            self._tally.unsent += 1
            return
        value = self.plan.environment.reward(self._rng, trial.context, arm)
        body = {
            "tenant": self._tenants[trial.tenant].name,
            "decision_id": decision_id,
            "reward": value,
        }
        answer = await self._call(REWARD, trial, body, due=due)
        if answer is not None and answer["status"] == "applied":
            self._tally.rewarded.learn(trial, arm=arm)
        if trial.duplicated:
            again = await self._call(REWARD, trial, body, due=time.monotonic())
            if answer is not None and again is not None and again["status"] != "duplicate":
                self._tally.twice_applied += 1

    async def _wait_until(self, due: float) -> bool:
        """Whether it came to that: at the end of the test rewards are no longer waited for."""
        task = asyncio.current_task()
        assert task is not None
        if self._stopped:
            return False
        self._awaiting.add(task)
        try:
            await asyncio.sleep(due - time.monotonic())
        except asyncio.CancelledError:
            return False
        finally:
            self._awaiting.discard(task)
        return True

    async def _call(
        self, call: str, trial: Trial, body: dict[str, Any], *, due: float
    ) -> dict[str, Any] | None:
        """The answer of 200; another one, or none, is counted and that is all."""
        sent = time.monotonic()
        self._tally.in_flight += 1
        try:
            answer = await self._wire.post(
                self._heads[call, trial.tenant], json.dumps(body).encode()
            )
        except NoAnswer as failure:
            kind, certain, accepted = failure.kind, not failure.sent, None
        else:
            kind, certain, accepted = _read(call, answer)
        tally = self._tally
        tally.in_flight -= 1
        tally.fates[Fate(trial.tenant, call, kind, certain)] += 1
        if kind == TIMEOUT or kind.isdigit() or accepted is not None:
            tally.time(call, due=due, sent=sent, done=time.monotonic())
        return accepted

    async def _flush_regularly(self, start: float) -> None:
        for slot in itertools.count(1):
            await asyncio.sleep(start + slot * FLUSH_SECONDS - time.monotonic())
            self._hand_over()

    def _hand_over(self) -> None:
        tally = self._tally
        tally.sending = self._sending is not None and not self._sending.done()
        tally.cpu_seconds = time.process_time() - self._cpu_start
        self._tally = Tally(tally.process, slot=tally.slot + 1, in_flight=tally.in_flight)
        self._flush(tally)


def _read(call: str, answer: Answer) -> tuple[str, bool, dict[str, Any] | None]:
    """The kind of the answer, whether its effect is certain, and what it says when it is a 200."""
    if answer.status == 200:
        try:
            accepted: dict[str, Any] = json.loads(answer.body)
            said = accepted["status" if call == REWARD else "arm"]
            return (said if call == REWARD else "200"), True, accepted
        except (ValueError, TypeError, KeyError):  # something else answers at this address
            return UNREADABLE, False, None
    # After a 5xx the service may have counted the request or not.
    return str(answer.status), answer.status < 500, None
