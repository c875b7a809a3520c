"""The tables of a report, the same on paper, on a page and on a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.counts import Count, totals
from loadtest.tally import DUE

_SINCE = {"due": "from when it was due", "sent": "from when it was sent"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a title, and a sentence or two below them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables(numbers: Mapping[str, Any], counts: Sequence[Count]) -> list[Table]:
    """All of them; the set-up comes last."""
    return [
        _latency(numbers),
        _traffic(numbers),
        _errors(numbers),
        _learning(numbers),
        _counts(numbers, counts),
        _thresholds(numbers),
        _setup(numbers),
    ]


def _setup(numbers: Mapping[str, Any]) -> Table:
    rows = [(name, str(value)) for name, value in numbers["setup"].items()]
    return Table(title="Set-up", columns=("", ""), rows=rows)


def _traffic(numbers: Mapping[str, Any]) -> Table:
    traffic = numbers["traffic"]
    rows = [
        ("selects answered", f"{traffic['selects_answered']:,}"),
        ("in seconds", f"{traffic['seconds']:.1f}"),
        ("selects a second", f"{traffic['selects_per_second']:.1f}"),
        ("requests in all", f"{traffic['requests']:,}"),
        ("rewards lost on purpose", f"{traffic['rewards_lost_on_purpose']:,}"),
        ("rewards still to come at the end", f"{traffic['rewards_unsent']:,}"),
        ("client late in sending, p99", f"{traffic['client_lag_p99_ms']:.1f} ms"),
        ("client's busiest process", f"{traffic['client_busy_share']:.0%} of a core"),
    ]
    note = ""
    if not traffic["client_kept_up"]:
        note = (
            "The client itself could not keep up: part of the latency is its own. Use more "
            "--processes, a lower --rate, or another machine."
        )
    return Table(title="Traffic", columns=("", ""), rows=rows, note=note)


def _latency(numbers: Mapping[str, Any]) -> Table:
    rows = [
        (f"{call}, {_SINCE[since]}", *(_figure(value) for value in row.values()))
        for call, kinds in numbers["latency_ms"].items()
        for since, row in kinds.items()
    ]
    columns = ("ms", *numbers["latency_ms"]["select"][DUE])
    note = (
        "A request counts from when it was due, so a stalled service shows its stall. Timeouts "
        "count with the time they took; requests that broke off or found no connection do not."
    )
    return Table(title="Latency", columns=columns, rows=rows, note=note)


def _errors(numbers: Mapping[str, Any]) -> Table:
    rows = [
        (call, kind, f"{count:,}")
        for call, kinds in numbers["errors"].items()
        for kind, count in kinds.items()
    ]
    share = numbers["traffic"]["error_share"]
    note = f"{share:.2%} of all requests." if rows else "None."
    return Table(title="Errors", columns=("call", "kind", "requests"), rows=rows, note=note)


def _learning(numbers: Mapping[str, Any]) -> Table:
    learning = numbers["learning"]

    def proxy(name: str) -> str:
        return "not in /metrics" if learning[name] is None else f"{learning[name]:.1f}"

    rows = [
        ("average reward", f"{learning['average_reward']:.3f}"),
        ("… in the last quarter", f"{learning['average_reward_last_quarter']:.3f}"),
        ("of a random arm", f"{learning['random_arm']:.3f}"),
        ("of the optimum", f"{learning['optimum']:.3f}"),
        (
            "way from random to optimum, last quarter",
            f"{learning['share_of_the_way_last_quarter']:.1%}",
        ),
        ("true regret", f"{learning['true_regret']:.1f}"),
        ("… of rewarded decisions alone", f"{learning['true_regret_of_rewarded']:.1f}"),
        ("the service's upper proxy", proxy("regret_upper")),
        ("the service's estimate", proxy("regret_estimate")),
    ]
    note = "Rewards and true regret are in means, without noise. The proxies know rewards alone."
    return Table(title="Learning", columns=("", ""), rows=rows, note=note)


def _counts(numbers: Mapping[str, Any], counts: Sequence[Count]) -> Table:
    rows = [
        (
            f"{count.what} of {count.tenant}" if count.tenant else count.what,
            count.expected,
            str(count.server),
            _verdict(count),
        )
        for count in totals(counts)
    ]
    if not counts:
        note = "The service could not be asked for its counts at the end."
    elif numbers["counts_equal"]:
        note = "What the client saw is what the service counted."
        if not any(count.what.startswith("/") for count in counts):
            note += " Its /metrics could not be read, so HTTP requests are not compared."
    else:
        note = (
            "The service counted something else than the client saw. If others use these tenants, "
            "or the HTTP counts alone differ since others use the service, see --shared."
        )
    columns = ("count", "client", "service", "verdict")
    return Table(title="Counts", columns=columns, rows=rows, note=note)


def _thresholds(numbers: Mapping[str, Any]) -> Table:
    rows = [
        (row["what"], _figure(row["limit"]), _figure(row["value"]), _passed(row["passed"]))
        for row in numbers["thresholds"]
    ]
    columns = ("threshold", "limit", "seen", "verdict")
    return Table(title="Thresholds", columns=columns, rows=rows)


def _verdict(count: Count) -> str:
    if count.equal:
        return "equal"
    return "DIFFERENT" if count.judged else "different, not judged"


def _passed(passed: bool) -> str:
    return "kept" if passed else "MISSED"


def _figure(value: float | None) -> str:
    """Three digits or so, and counts in full."""
    if value is None:
        return "nothing"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
