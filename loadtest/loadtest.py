"""`zooming loadtest`: tenants made, traffic sent, counts compared, a report written.

The process that runs this leads: it sends no load, it shows what the others hand over.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from loadtest.counts import Count, request_counts, tenant_counts
from loadtest.crew import Crew
from loadtest.display import LINE_SECONDS, Display
from loadtest.plan import Access, Plan
from loadtest.record import Record
from loadtest.report import Report
from loadtest.target import Metrics, Target
from service.client import ZoomingClientError

# What was under way when the test was stopped is counted a moment later.
AGREE_SECONDS = 2.0
_SAMPLES = 50  # readings of the metrics during a test
_SHORTEST_SAMPLE_SECONDS = 1.0


def loadtest(plan: Plan) -> int:
    """Runs the test, for ever if so planned; 0 when everything held, else 1."""
    admin_key = os.environ.get("ZOOMING_ADMIN_KEY", "")
    metrics_key = os.environ.get("ZOOMING_METRICS_KEY", "")
    with Target(plan.url, admin_key=admin_key, metrics_key=metrics_key) as target, _Stop() as stop:
        target.verify()
        while True:
            print(f"zooming: {plan}", flush=True)
            report = _run(plan, target=target, stop=stop)
            print(f"\n{report.summary()}", flush=True)
            if plan.report is not None:
                report.write(plan.report)
                print(f"\nThe report is in {plan.report}", flush=True)
            if stop.asked or not plan.forever:
                return 0 if report.passed else 1
            plan = replace(plan, seed=plan.seed + 1)


def _run(plan: Plan, *, target: Target, stop: "_Stop") -> Report:
    tenants: list[Access] = []
    begun: list[str] = []
    try:
        for name in _shown(plan.tenant_names(), doing="making"):
            if stop.asked:
                raise KeyboardInterrupt
            # A tenant whose creation fails may be there all the same.
            begun.append(name)
            tenants.append(target.create(name, plan.configuration))
        before = target.metrics()
        record = _replay(plan, target=target, tenants=tenants, stop=stop)
        counts = _compare(plan, target=target, record=record, before=before)
        return Report.of(plan, record=record, counts=counts)
    finally:
        if not plan.keep:
            _delete(target, names=begun)


def _delete(target: Target, *, names: Sequence[str]) -> None:
    """A service that is gone by now is no reason to lose the report."""
    for name in _shown(names, doing="deleting"):
        try:
            target.delete(name)
        except ZoomingClientError as error:
            print(f"zooming: the tenant {name} may be left: {error}", file=sys.stderr)


def _shown(names: Sequence[str], *, doing: str) -> Iterator[str]:
    """The names, with a line now and then on how far it is."""
    shown_at = time.monotonic()
    for done, name in enumerate(names):
        if time.monotonic() - shown_at > LINE_SECONDS:
            shown_at = time.monotonic()
            print(f"zooming: {doing} tenants, {done} of {len(names)}", flush=True)
        yield name


def _replay(plan: Plan, *, target: Target, tenants: Sequence[Access], stop: "_Stop") -> Record:
    record, display = Record(), Display(plan)
    with Crew(plan, tenants=tenants) as crew, _sampling(plan, target=target, record=record):
        record.start = crew.start()
        stop.crew = crew
        if stop.asked:
            crew.stop()
        for tally in crew.tallies():
            if tally is not None:
                record.add(tally)
            display.show(record)
        stop.crew = None
    record.interrupted = stop.asked
    return record


def _compare(plan: Plan, *, target: Target, record: Record, before: Metrics | None) -> list[Count]:
    """The counts, as soon as they agree, or as they still are after a while; none without them."""
    names = plan.tenant_names()
    deadline = time.monotonic() + AGREE_SECONDS
    while True:
        after = target.metrics()
        try:
            counts = tenant_counts(record, names=names, server=target.counts(names, metrics=after))
        except ZoomingClientError as error:
            print(f"zooming: no counts to compare: {error}", file=sys.stderr)
            return []
        if before is not None and after is not None:
            counts += request_counts(record, before=before, after=after, judged=not plan.shared)
        if all(count.equal for count in counts if count.judged) or time.monotonic() > deadline:
            record.samples += [after] if after is not None else []
            return counts
        time.sleep(0.1)


@contextmanager
def _sampling(plan: Plan, *, target: Target, record: Record) -> Iterator[None]:
    """Reads the metrics now and then, in a thread: a stalled service must not stall the display."""
    every = max(_SHORTEST_SAMPLE_SECONDS, (plan.expected_seconds or 0.0) / _SAMPLES)
    over = threading.Event()

    def sample() -> None:
        while not over.wait(every):
            metrics = target.metrics()
            if metrics is not None:
                record.samples.append(metrics)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Stop:
    """The first SIGINT or SIGTERM asks for an end in good order; the second one ends everything.

    An exception at any moment could come between the making of a tenant and its deletion.
    """

    def __init__(self) -> None:
        self.asked = False
        self.crew: Crew | None = None  # while it works
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _: object) -> None:
        signal.signal(number, signal.default_int_handler)
        self.asked = True
        if self.crew is not None:
            self.crew.stop()
