"""The client's counts held against the service's: what a load test saw must be what was counted.

A request that got no answer, or a 5xx, may have been counted or not, so it widens what is expected
to a range. Everything else must be equal.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loadtest.record import Record
from loadtest.tally import REWARD, SELECT, Fate
from loadtest.target import OUTCOMES, Metrics, TenantCounts

# What the service counts a refused reward as.
_OUTCOME_OF = {"409": "conflict", "410": "late", "404": "unknown"}
_ACCEPTED = ("applied", "duplicate", "ignored")


@dataclass(frozen=True, kw_only=True)
class Count:
    """One number as the client expects it, at least and at most, and as the service has it."""

    what: str
    tenant: str = ""  # empty when it is the sum over all
    least: int
    most: int
    server: int
    judged: bool = True

    @property
    def equal(self) -> bool:
        """Whether the two agree."""
        return self.least <= self.server <= self.most

    @property
    def expected(self) -> str:
        """The client's number, or the range it can vouch for."""
        return f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"


def tenant_counts(
    record: Record, *, names: Sequence[str], server: Mapping[str, TenantCounts]
) -> list[Count]:
    """Trials and rewards of each tenant, and that no reward was applied twice."""
    seen: Counter[tuple[int, str, str]] = Counter()
    doubtful: Counter[tuple[int, str]] = Counter()
    for fate, count in record.fates.items():
        if fate.certain:
            kind = _OUTCOME_OF.get(fate.kind, fate.kind) if fate.call == REWARD else fate.kind
            seen[fate.tenant, fate.call, kind] += count
        else:
            doubtful[fate.tenant, fate.call] += count
    found = []
    for number, name in enumerate(names):
        rows = [("trials", SELECT, "200", server[name].trials)]
        rows += [(f"rewards {o}", REWARD, o, server[name].rewards[o]) for o in OUTCOMES]
        for what, call, kind, at_server in rows:
            least = seen[number, call, kind]
            most = least + doubtful[number, call]
            found.append(Count(what=what, tenant=name, least=least, most=most, server=at_server))
    twice = Count(what="rewards applied twice", least=0, most=0, server=record.twice_applied)
    return [*found, twice]


def request_counts(record: Record, *, before: Metrics, after: Metrics, judged: bool) -> list[Count]:
    """Requests by route and status, as the service's HTTP metrics grew during the test."""
    seen: Counter[tuple[str, str]] = Counter()
    doubtful: Counter[str] = Counter()
    for fate, count in record.fates.items():
        route, status = f"/{fate.call}", _status(fate)
        if status:
            seen[route, status] += count
        elif not fate.certain:
            doubtful[route] += count
    grown = after.requests - before.requests
    routes = {f"/{call}" for call in (SELECT, REWARD)}
    keys = sorted({key for key in [*seen, *grown] if key[0] in routes})
    return [
        Count(
            what=f"{route} answered {status}",
            least=seen[route, status],
            most=seen[route, status] + doubtful[route],
            server=grown[route, status],
            judged=judged,
        )
        for route, status in keys
    ]


def totals(counts: Iterable[Count]) -> list[Count]:
    """The sums over all tenants, then every tenant's count that is not equal."""
    sums: dict[str, Count] = {}
    wrong = []
    for count in counts:
        so_far = sums.get(count.what)
        sums[count.what] = replace(
            count,
            tenant="",
            least=count.least + (so_far.least if so_far else 0),
            most=count.most + (so_far.most if so_far else 0),
            server=count.server + (so_far.server if so_far else 0),
        )
        if not count.equal and count.tenant:
            wrong.append(count)
    return [*sums.values(), *wrong]


def _status(fate: Fate) -> str:
    """The status of the answer, or nothing when there was none."""
    if fate.kind in _ACCEPTED:
        return "200"
    return fate.kind if fate.kind.isdigit() else ""
