"""The metrics of the tenants and of the store, as they stand there when they are asked for.

Every service on one store shows the same: combine several with `max`, never with `sum`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from service.families import Family
from service.store import ServerState, TenantStats

OTHER = "other"
_PHASES = ("active", "flagged")
_TRIALS = (*_PHASES, "holdout")
_OUTCOMES = (
    "applied",
    "defaulted",
    "holdout",
    "duplicate",
    "conflict",
    "ignored",
    "late",
    "unknown",
)


def store_metrics(server: ServerState | None) -> Iterator[Family]:
    """How the store is doing; `None` when it does not answer."""
    yield _gauge(
        "zooming_store_up",
        "1 if the store answered at this scrape; if not, all metrics of tenants are missing.",
        float(server is not None),
    )
    if server is None:
        return
    yield _gauge("zooming_store_memory_bytes", "Memory that the store uses.", server.memory_bytes)
    yield _gauge(
        "zooming_store_memory_limit_bytes",
        "The store's maxmemory, or its host's memory if it has no limit.",
        server.memory_limit_bytes,
    )
    yield _gauge(
        "zooming_store_durability",
        "When the store has its writes on disk: always, everysec, no, off (never) or unknown.",
        1,
        labels=f'mode="{server.durability}"',
    )


def _gauge(name: str, text: str, value: float, *, labels: str = "") -> Family:
    return Family("gauge", name, text, [(labels, value)])


def tenant_metrics(tenants: Sequence[TenantStats], *, most: int) -> Iterator[Family]:
    """Of the `most` oldest tenants each by itself, of the rest the sum.

    The oldest, since a choice by traffic would change, and each change would look like a reset of
    the counters of both who comes and who goes.
    """
    yield _gauge("zooming_tenants", "How many tenants there are.", len(tenants))
    by_age = sorted(tenants, key=lambda stats: (stats.created_at_ms, stats.tenant))
    shown = {stats.tenant: stats for stats in by_age[:most]}
    rest = by_age[most:]
    if rest:
        # A tenant may bear this very name.
        rest += [shown.pop(OTHER)] if OTHER in shown else []
        shown[OTHER] = combined(rest)
    for family in _FAMILIES:
        yield family.of(shown)


def combined(tenants: Sequence[TenantStats]) -> TenantStats:
    """Several tenants as one: sums, but the greatest depth and age."""
    counters: Counter[str] = Counter()
    clusters: Counter[int] = Counter()
    decisions: Counter[str] = Counter()
    for stats in tenants:
        counters.update(stats.counters)
        clusters.update(stats.clusters)
        decisions.update(stats.decisions)
    counters["depth"] = max(stats.counters["depth"] for stats in tenants)
    return TenantStats(
        tenant=OTHER,
        created_at_ms=min(stats.created_at_ms for stats in tenants),
        counters=counters,
        clusters=clusters,
        decisions=decisions,
        cells_owed=sum(stats.cells_owed for stats in tenants),
        cells_filled=sum(stats.cells_filled for stats in tenants),
        flagged_age_ms=max(stats.flagged_age_ms for stats in tenants),
        reward_sum=sum(stats.reward_sum for stats in tenants),
        regret_upper=sum(stats.regret_upper for stats in tenants),
        regret_estimate=sum(stats.regret_estimate for stats in tenants),
        uplift=None,
    )


@dataclass(frozen=True)
class _OfTenants:
    """A metric of tenants, and how it is read from what is known of one."""

    kind: Literal["counter", "gauge"]
    name: str
    help: str
    values: Callable[[TenantStats], Mapping[str, float]]  # by the other label's value
    label: str = ""  # besides the tenant, if there is one

    def of(self, shown: Mapping[str, TenantStats]) -> Family:
        """The metric of all tenants that are shown."""
        return Family(self.kind, self.name, self.help, self._series(shown))

    def _series(self, shown: Mapping[str, TenantStats]) -> Iterator[tuple[str, float]]:
        for tenant, stats in shown.items():
            for label, value in self.values(stats).items():
                other = f'{self.label}="{label}",' if self.label else ""
                yield f'{other}tenant="{tenant}"', value


_FAMILIES = (
    _OfTenants(
        "counter",
        "zooming_trials",
        "Selects answered, by the phase of the ball that was played.",
        lambda stats: {phase: stats.counters[f"trials_{phase}"] for phase in _TRIALS},
        "phase",
    ),
    _OfTenants(
        "counter",
        "zooming_rewards",
        "Rewards received: applied; duplicate (the same again); conflict (another value); late "
        "(after the window); unknown (no such decision).",
        lambda stats: {outcome: stats.counters[f"rewards_{outcome}"] for outcome in _OUTCOMES},
        "outcome",
    ),
    _OfTenants(
        "counter",
        "zooming_splits",
        "Balls that were split.",
        lambda stats: {"": stats.counters["splits"]},
    ),
    _OfTenants(
        "gauge",
        "zooming_balls",
        "Balls of the partition, by phase.",
        lambda stats: {phase: stats.counters[phase] for phase in _PHASES},
        "phase",
    ),
    _OfTenants(
        "gauge",
        "zooming_clusters",
        "Active balls, each a cluster of arms, by depth of their interval.",
        lambda stats: {str(depth): number for depth, number in sorted(stats.clusters.items())},
        "depth",
    ),
    _OfTenants(
        "gauge",
        "zooming_decisions",
        "Decisions that are remembered: open (a reward is awaited), rewarded, defaulted, "
        "censored, expired (none came). Right to within 1/120 of window and retention.",
        lambda stats: stats.decisions,
        "state",
    ),
    _OfTenants(
        "gauge",
        "zooming_partition_depth",
        "Depth of the finest context interval that there ever was.",
        lambda stats: {"": stats.counters["depth"]},
    ),
    _OfTenants(
        "gauge",
        "zooming_suff_data_ratio",
        "Share of the samples that flagged balls need that has come in; 1 if none is flagged.",
        lambda stats: {"": stats.suff_data_ratio},
    ),
    _OfTenants(
        "gauge",
        "zooming_flagged_age_seconds",
        "Age of the ball that has been flagged for longest; 0 if none is.",
        lambda stats: {"": stats.flagged_age_ms / 1000},
    ),
    _OfTenants(
        "gauge",
        "zooming_reward_sum",
        "Sum of the rewards applied.",
        lambda stats: {"": stats.reward_sum},
    ),
    _OfTenants(
        "gauge",
        "zooming_regret_upper",
        "Sum over rewarded decisions of (1 if flagged or, with adaptive, an arm was untried; else "
        "UCB or 1 if less) - reward: up to noise no less than the regret, while the assumptions "
        "hold.",
        lambda stats: {"": stats.regret_upper},
    ),
    _OfTenants(
        "gauge",
        "zooming_regret_estimate",
        "Sum over rewarded decisions of (best mean of a ball at the context) - reward: an estimate "
        "of the regret, no bound.",
        lambda stats: {"": stats.regret_estimate},
    ),
)
