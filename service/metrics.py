"""The metrics of the processes, counted where things happen, and the page that shows all metrics.

With `PROMETHEUS_MULTIPROC_DIR` set, as `zooming serve` sets it, what the workers of one service
count is shared through files there, and any worker shows the sum. Without it a process counts for
itself. The metrics of the tenants are in `state_metrics.py`.
"""

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, values
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service.families import Family
from service.slots import FOLDER_VARIABLE, living_workers, resident_bytes, take_slot

STORE_FAILURES = ("timeout", "refused", "unreachable")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
)  # fmt: skip
_STEP_SECONDS = (0.0001, 0.00025, 0.0005, *_REQUEST_SECONDS[:-2])
_SPLIT_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ProcessMetrics:
    """What this process counts; it observes the store's connection and the splitter."""

    def __init__(self, *, version: str) -> None:
        self._version = version
        self._registry = CollectorRegistry()
        folder = os.environ.get(FOLDER_VARIABLE)
        self._folder = Path(folder) if folder else None
        if self._folder is not None:
            slot = take_slot(self._folder, files=("counter", "histogram"))
            values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]
        # `labels` looks a series up under a lock; a series once found stays the same.
        self._requests = cache(
            Counter(
                "zooming_http_requests",
                "HTTP requests answered; route 'unmatched': no such path, or a body too large.",
                ["route", "method", "status"],
                registry=self._registry,
            ).labels
        )
        self._request_seconds = cache(
            Histogram(
                "zooming_http_request_seconds",
                "Time from a request's arrival to the end of its answer.",
                ["route", "method"],
                buckets=_REQUEST_SECONDS,
                registry=self._registry,
            ).labels
        )
        self._split_seconds = Histogram(
            "zooming_split_seconds",
            "Time of a split, from claim to publication, by the worker that made it.",
            buckets=_SPLIT_SECONDS,
            registry=self._registry,
        )
        self._step_seconds = cache(
            Histogram(
                "zooming_store_seconds",
                "Time of a step in the store, as the worker sees it, waiting and network included.",
                ["step"],
                buckets=_STEP_SECONDS,
                registry=self._registry,
            ).labels
        )
        self._store_errors = Counter(
            "zooming_store_errors",
            "Calls of the store that were not answered in time, refused, or did not reach it.",
            ["kind"],
            registry=self._registry,
        )
        for kind in STORE_FAILURES:
            self._store_errors.labels(kind)

    def request_answered(self, *, route: str, method: str, status: int) -> None:
        """Counts a request as its answer begins, so that no client knows of it sooner."""
        self._requests(route, _known(method), status).inc()

    def request_took(self, *, route: str, method: str, seconds: float) -> None:
        """The whole time of a request."""
        self._request_seconds(route, _known(method)).observe(seconds)

    def split_took(self, seconds: float) -> None:
        """A split was published."""
        self._split_seconds.observe(seconds)

    def step_took(self, step: str, seconds: float) -> None:
        """A step was answered."""
        self._step_seconds(step).observe(seconds)

    def store_failed(self, kind: str) -> None:
        """A call of the store failed."""
        self._store_errors.labels(kind).inc()

    def page(self, state: Iterable[Family], *, accept: str) -> tuple[bytes, str]:
        """All metrics in a format that the caller accepts, and the format's name."""
        registry = CollectorRegistry()
        if self._folder is None:
            registry.register(_Given(self._registry.collect))
        else:
            self._folder.mkdir(mode=0o700, exist_ok=True)  # someone may have removed it
            MultiProcessCollector(registry, path=str(self._folder))  # type: ignore[no-untyped-call]
        registry.register(_Given(self._workers))
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is none
            encode, content_type = choose_encoder("")
        openmetrics = content_type.startswith("application/openmetrics-text")
        of_state = "".join(family.text(openmetrics=openmetrics) for family in state)
        return of_state.encode() + encode(registry), content_type

    def _workers(self) -> Iterable[Metric]:
        pids = {0: os.getpid()} if self._folder is None else living_workers(self._folder)
        yield GaugeMetricFamily("zooming_workers", "Workers of this service.", value=len(pids))
        memory = GaugeMetricFamily(
            "zooming_worker_memory_bytes", "Resident memory of a worker.", labels=["worker"]
        )
        for slot, pid in sorted(pids.items()):
            if (used := resident_bytes(pid)) is not None:
                memory.add_metric([str(slot)], used)
        yield memory
        build = GaugeMetricFamily(
            "zooming_build_info", "The version that this service runs.", labels=["version"]
        )
        build.add_metric([self._version], 1)
        yield build


class _Given(Collector):
    """Metrics that were collected elsewhere."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """Hands them on."""
        return self._collect()


def _known(method: str) -> str:
    """A method is whatever the client sends; a label must have few values."""
    return method if method in _METHODS else "other"
