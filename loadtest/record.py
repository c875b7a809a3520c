"""All that a load test saw, put together from the tallies of its processes."""

import time
from collections import Counter
from dataclasses import dataclass, field

from loadtest.latency import Latencies
from loadtest.tally import LAG, SELECT, Fate, Learning, Tally
from loadtest.target import Metrics
from loadtest.timeline import Timeline

# The client cannot keep up when more than one send in a hundred leaves this much after it was due,
# or when its busiest process has hardly a moment left.
LATE_CLIENT_MS = 20.0
BUSY_CLIENT_SHARE = 0.9
_FINE = ("200", "applied", "duplicate")


@dataclass
class Record:
    """What was seen from the start until now."""

    start: float = field(default_factory=time.monotonic)
    fates: Counter[Fate] = field(default_factory=Counter)
    latencies: dict[tuple[str, str], Latencies] = field(default_factory=dict)
    learning: Learning = field(default_factory=Learning)
    rewarded: Learning = field(default_factory=Learning)
    timeline: Timeline = field(default_factory=Timeline)
    samples: list[Metrics] = field(default_factory=list)  # the metrics, as the test went on
    lost: int = 0
    unsent: int = 0
    twice_applied: int = 0
    in_flight: dict[int, int] = field(default_factory=dict)  # by process
    cpu_seconds: dict[int, float] = field(default_factory=dict)  # by process
    seconds: float = 0.0  # until the last answer to a select
    interrupted: bool = False

    def add(self, tally: Tally) -> None:
        """Takes in what a process handed over."""
        self.fates.update(tally.fates)
        for key, latencies_us in tally.latencies_us.items():
            self.latencies.setdefault(key, Latencies()).record(latencies_us)
        self.learning.add(tally.learning)
        self.rewarded.add(tally.rewarded)
        self.lost += tally.lost
        self.unsent += tally.unsent
        self.twice_applied += tally.twice_applied
        self.in_flight[tally.process] = tally.in_flight
        self.cpu_seconds[tally.process] = tally.cpu_seconds
        if tally.sending or tally.answered_at:
            self.timeline.add(tally, in_flight=sum(self.in_flight.values()))
        if tally.answered_at:
            self.seconds = max(self.seconds, tally.answered_at - self.start)

    @property
    def rate(self) -> float:
        """Answered selects a second."""
        return self.learning.trials / self.seconds if self.seconds else 0.0

    def errors(self) -> dict[str, dict[str, int]]:
        """Requests that failed, by call and kind."""
        found: dict[str, Counter[str]] = {}
        for fate, count in self.fates.items():
            if fate.kind not in _FINE:
                found.setdefault(fate.call, Counter())[fate.kind] += count
        return {call: dict(kinds.most_common()) for call, kinds in sorted(found.items())}

    @property
    def error_share(self) -> float:
        """The share of all requests that failed."""
        failed = sum(sum(kinds.values()) for kinds in self.errors().values())
        return failed / max(1, self.fates.total())

    @property
    def client_lag_ms(self) -> float:
        """How late the client itself was in sending selects: the 99th percentile."""
        lags = self.latencies.get((SELECT, LAG))
        return lags.percentiles_ms([99.0])[0] if lags else 0.0

    @property
    def client_busy_share(self) -> float:
        """How busy the busiest process of the client was, of one core."""
        return max(self.cpu_seconds.values(), default=0.0) / max(self.seconds, 1e-9)

    @property
    def client_kept_up(self) -> bool:
        """Whether the latencies are the service's alone."""
        return self.client_lag_ms <= LATE_CLIENT_MS and self.client_busy_share <= BUSY_CLIENT_SHARE
