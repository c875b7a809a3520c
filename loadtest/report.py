"""The report of a load test: every number in it, the verdicts, and the files it goes to."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadtest import markdown, page
from loadtest.counts import Count
from loadtest.latency import Latencies
from loadtest.plan import Plan, Thresholds
from loadtest.record import Record
from loadtest.tables import tables
from loadtest.tally import DUE, REWARD, SELECT, SENT, Learning

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
CURVE_POINTS = 100
WINDOW_SHARE = 0.05  # of the trials: the learning curve averages over so many
LAST_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A threshold and whether it was kept."""

    what: str
    limit: float
    value: float | None  # `None` when there was nothing to measure
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a load test found; `numbers` is all of it, ready for JSON."""

    numbers: dict[str, Any]
    counts: Sequence[Count]
    verdicts: Sequence[Verdict]

    @classmethod
    def of(cls, plan: Plan, *, record: Record, counts: Sequence[Count]) -> "Report":
        """The report on a record; without counts, what was seen cannot be confirmed."""
        verdicts = judge(plan, record)
        equal = bool(counts) and all(count.equal for count in counts if count.judged)
        # Thresholds that were not tried for as long as was planned were not kept.
        tried = not record.interrupted or plan.thresholds == Thresholds()
        kept = tried and all(verdict.passed for verdict in verdicts)
        numbers = {
            "passed": equal and kept,
            "counts_equal": equal,
            "interrupted": record.interrupted,
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "setup": _setup(plan),
            "traffic": _traffic(record),
            "latency_ms": _latency(record),
            "errors": record.errors(),
            "learning": _learning(plan, record),
            "thresholds": [vars(verdict) for verdict in verdicts],
            "counts": [vars(count) | {"equal": count.equal} for count in counts],
            "course": _course(record),
            "curve": _curve(record),
            "proxies": _proxies(plan, record),
            "distribution_ms": _distribution(record),
        }
        return cls(numbers=numbers, counts=counts, verdicts=verdicts)

    @property
    def passed(self) -> bool:
        """Whether the counts are equal and every threshold was kept."""
        return bool(self.numbers["passed"])

    def summary(self) -> str:
        """What a terminal shows at the end."""
        return markdown.render(self.numbers, tables(self.numbers, self.counts)[:-1])

    def write(self, folder: Path) -> None:
        """Writes report.md, report.html and report.json."""
        folder.mkdir(parents=True, exist_ok=True)
        found = tables(self.numbers, self.counts)
        (folder / "report.md").write_text(markdown.render(self.numbers, found))
        (folder / "report.html").write_text(page.render(self.numbers, found))
        (folder / "report.json").write_text(json.dumps(self.numbers, indent=1, allow_nan=False))


def judge(plan: Plan, record: Record) -> list[Verdict]:
    """The thresholds that were given, against what was seen; and there must be something."""
    limits = plan.thresholds
    select = record.latencies.get((SELECT, DUE), Latencies())
    p99_ms = select.percentiles_ms([99.0])[0] if select.count else None
    ceilings = [
        ("p99 of select, ms", limits.max_p99_ms, p99_ms),
        ("share of errors", limits.max_error_share, record.error_share),
    ]
    floors = [
        ("selects answered", 1, record.learning.trials),
        ("selects a second", limits.min_rate, record.rate),
        ("way from random to optimum", limits.min_reward_share, _last_part(record).share),
    ]
    found = []
    for what, limit, value in ceilings:
        if limit is not None:
            kept = value is not None and value <= limit
            found.append(Verdict(what=f"{what}, at most", limit=limit, value=value, passed=kept))
    for what, limit, value in floors:
        if limit is not None:
            kept = value >= limit
            found.append(Verdict(what=f"{what}, at least", limit=limit, value=value, passed=kept))
    return found


def _setup(plan: Plan) -> dict[str, Any]:
    length = f"{plan.seconds:g} s" if plan.seconds is not None else f"{plan.trials} trials"
    return {
        "service": plan.url,
        "environment": plan.environment_name,
        "arms": plan.environment.arms,
        "noise": plan.environment.noise,
        "loop": f"open, {plan.rate:g} selects a second"
        if plan.rate
        else f"closed, {plan.clients} clients",
        "length": length,
        "tenants": plan.tenants,
        "reward delay, seconds": str(plan.delay),
        "rewards lost": plan.lost,
        "rewards sent twice": plan.duplicates,
        "processes": plan.processes,
        "seed": plan.seed,
        "tenant configuration": json.dumps(plan.configuration),
    }


def _traffic(record: Record) -> dict[str, Any]:
    return {
        "seconds": record.seconds,
        "requests": record.fates.total(),
        "selects_answered": record.learning.trials,
        "selects_per_second": record.rate,
        "rewards_lost_on_purpose": record.lost,
        "rewards_unsent": record.unsent,
        "error_share": record.error_share,
        "client_lag_p99_ms": record.client_lag_ms,
        "client_busy_share": record.client_busy_share,
        "client_kept_up": record.client_kept_up,
    }


def _latency(record: Record) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for call in (SELECT, REWARD):
        for since in (DUE, SENT):
            latencies = record.latencies.get((call, since), Latencies())
            values = latencies.percentiles_ms(list(PERCENTILES.values()))
            row = dict(zip(PERCENTILES, values, strict=True))
            row |= {"max": latencies.max_ms, "count": latencies.count}
            found.setdefault(call, {})[since] = row
    return found


def _last_part(record: Record) -> Learning:
    trials = record.learning.trials
    return record.timeline.between((1.0 - LAST_SHARE) * trials, trials)


def _learning(plan: Plan, record: Record) -> dict[str, Any]:
    learning, last = record.learning, _last_part(record)
    trials, late = max(1, learning.trials), max(1, last.trials)
    proxies = _proxies(plan, record)
    return {
        "trials": learning.trials,
        "average_reward": learning.earned / trials,
        "average_reward_last_quarter": last.earned / late,
        "random_arm": learning.at_random / trials,
        "optimum": learning.optimum / trials,
        "share_of_the_way_last_quarter": last.share,
        "true_regret": learning.regret,
        "true_regret_of_rewarded": record.rewarded.regret,
        "regret_upper": proxies["regret_upper"][-1] if proxies["seconds"] else None,
        "regret_estimate": proxies["regret_estimate"][-1] if proxies["seconds"] else None,
    }


def _course(record: Record) -> dict[str, list[float]]:
    """By time: rate, requests in flight, latencies of selects, true regret so far.

    A last slice that was not nearly over is left out: its rate would say nothing.
    """
    timeline = record.timeline
    whole = max(1, int(record.seconds / timeline.slice_seconds + 0.1))
    slices = timeline.slices[:whole]
    between = [piece.latencies.percentiles_ms([50.0, 99.0]) for piece in slices]
    return {
        "seconds": timeline.ends_seconds()[:whole],
        "rate": [piece.learning.trials / timeline.slice_seconds for piece in slices],
        "in_flight": [float(piece.in_flight) for piece in slices],
        "p50_ms": [p50 for p50, _ in between],
        "p99_ms": [p99 for _, p99 in between],
        "true_regret": [sums.regret for sums in timeline.running()[1 : whole + 1]],
    }


def _curve(record: Record) -> dict[str, list[float]]:
    """By trials: the average reward lately, beside a random arm's and the optimum's."""
    trials = record.learning.trials
    window = max(1.0, WINDOW_SHARE * trials)
    ends = [window + (trials - window) * point / CURVE_POINTS for point in range(CURVE_POINTS + 1)]
    parts = [record.timeline.between(end - window, end) for end in ends] if trials else []
    return {
        "trials": ends if trials else [],
        "reward": [part.earned / window for part in parts],
        "random_arm": [part.at_random / window for part in parts],
        "optimum": [part.optimum / window for part in parts],
    }


def _proxies(plan: Plan, record: Record) -> dict[str, list[float]]:
    """By time: the service's proxies, summed over the tenants; none while one is not listed."""
    names = plan.tenant_names()
    samples = [s for s in record.samples if all(name in s.regret_upper for name in names)]
    return {
        "seconds": [sample.at - record.start for sample in samples],
        "regret_upper": [sum(sample.regret_upper[name] for name in names) for sample in samples],
        "regret_estimate": [
            sum(sample.regret_estimate[name] for name in names) for sample in samples
        ],
    }


def _distribution(record: Record) -> dict[str, list[float]]:
    """The latency of selects at percentiles that come ever closer to 100."""
    latencies = record.latencies.get((SELECT, DUE), Latencies())
    sent = record.latencies.get((SELECT, SENT), Latencies())
    nines = math.log10(max(10, latencies.count))
    steps = [nines * point / CURVE_POINTS for point in range(1, CURVE_POINTS + 1)]
    percentiles = [100.0 * (1.0 - 10.0**-step) for step in steps]
    return {
        "percentile": percentiles,
        "due": latencies.percentiles_ms(percentiles),
        "sent": sent.percentiles_ms(percentiles),
    }
