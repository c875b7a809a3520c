"""`zooming evaluate`: what always playing one arm would have earned, from a decision log."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from service.algorithm.off_policy import Estimate, Outcome
from service.decision_log import DecisionLog
from service.errors import BadLog
from service.log_lines import log_lines

# Below this effective sample size the 95 % intervals hold the truth noticeably less often.
LEAST_EFFECTIVE = 100
# So many times the half width of its interval from 1, the mean of the weights is off by no chance.
_OFF = 2.0
_SHOWN = 5  # arms named in a warning

_SMALL = "small_sample"
_NEVER = "never_played"
_WEIGHTS = "weights_off"


def evaluate(*, log: str, arms: Sequence[str], as_json: bool) -> None:
    """Prints it, as a table or as JSON; `-` is the standard input."""
    with log_lines(log) as lines:
        read = DecisionLog.read(lines)
    if not read.tally.decisions:
        raise BadLog("No decision in this log has a reward: there is nothing to estimate from.")
    report = report_on(read, arms=arms)
    print(json.dumps(report, indent=2, ensure_ascii=False) if as_json else _text(report))


def report_on(read: DecisionLog, *, arms: Sequence[str] = ()) -> dict[str, Any]:
    """Counts, what the logging policy earned, each constant policy, the best first, warnings."""
    names = list(dict.fromkeys(arms)) or list(read.arms)
    unknown = len(read.arms)
    outcomes = {name: read.tally.constant(read.arms.get(name, unknown)) for name in names}
    found = {name: _findings(outcome) for name, outcome in outcomes.items()}
    ordered = sorted(names, key=lambda name: _worst_last(outcomes[name].snips.mean))
    return {
        "decisions": {"used": read.tally.decisions, **_counts(read)},
        "logged": _plain(read.tally.logged()),
        "policies": [
            {"arm": name, **_row(outcomes[name]), "warnings": found[name]} for name in ordered
        ],
        "warnings": [*_about_all(read), *_about_arms(found)],
    }


def _counts(read: DecisionLog) -> dict[str, int]:
    names = ("rewarded", "defaulted", "holdout", "certain")
    left_out = ("open", "expired", "censored", "ranked", "incomplete")
    return {name: read.counts[name] for name in (*names, *left_out)}


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "played": outcome.played,
        "effective": round(outcome.effective, 3),
        "ips": _plain(outcome.ips),
        "snips": _plain(outcome.snips),
        "mean_weight": _plain(outcome.mean_weight),
    }


def _plain(estimate: Estimate) -> dict[str, float | None]:
    """JSON has no word for what is not known."""
    return {
        name: value if math.isfinite(value) else None for name, value in asdict(estimate).items()
    }


def _worst_last(mean: float) -> float:
    return math.inf if math.isnan(mean) else -mean


# -- what to beware of


def _findings(outcome: Outcome) -> list[str]:
    if not outcome.played:
        return [_NEVER]
    if outcome.effective < LEAST_EFFECTIVE:
        return [_SMALL]
    weight = outcome.mean_weight
    return [_WEIGHTS] if abs(weight.mean - 1) > _OFF * (weight.high - weight.mean) else []


def _about_all(read: DecisionLog) -> list[str]:
    said = []
    certain, decisions = read.counts["certain"], read.tally.decisions
    if certain:
        said.append(
            f"In {certain:,} of {decisions:,} decisions the propensity is 1: no other arm could "
            "have been played, so nothing can be known of other arms there. Set "
            "`exploration_floor` or `holdout` for the tenant, and evaluate what is logged then."
        )
    if read.counts["repeated"]:
        said.append(
            f"{read.counts['repeated']:,} lines were left out, since their ids are not above those "
            "before: give each page of the log once, in its order."
        )
    return said


def _about_arms(found: dict[str, list[str]]) -> list[str]:
    texts = {
        _NEVER: "never played in this log, so nothing can be said. If the name is right, set "
        "`exploration_floor` or `holdout` for the tenant.",
        _SMALL: f"the effective sample size is below {LEAST_EFFECTIVE}, too small to trust the "
        "intervals. Set `exploration_floor` or `holdout`, or a larger one, or log longer.",
        _WEIGHTS: "the mean of the weights is not 1, as it is where the arm could be played in "
        "every decision. It was added later, paused or not eligible, or else the propensities "
        "are not true. IPS is wrong then; SNIPS speaks for the decisions where it could be.",
    }
    said = []
    for kind, text in texts.items():
        names = [name for name, kinds in found.items() if kind in kinds]
        if names:
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            said.append(f"always {', '.join(names[:_SHOWN])}{more}: {text}")
    return said


# -- as text


def _text(report: dict[str, Any]) -> str:
    counts, logged = report["decisions"], report["logged"]
    used = f"{counts['used']:,} decisions with a reward"
    if counts["defaulted"]:
        used += f", {counts['defaulted']:,} of them by default"
    if counts["holdout"]:
        used += f", {counts['holdout']:,} of them of the holdout"
    left_out = {
        "open": "open",
        "expired": "expired",
        "censored": "censored",
        "ranked": "below the first of a ranking",
        "incomplete": "whose first line is missing",
    }
    without = [f"{counts[name]:,} {words}" for name, words in left_out.items() if counts[name]]
    lines = [
        used,
        f"left out: {', '.join(without) or 'none'}",
        f"the policy that decided earned {_interval(logged)}",
        "",
        *_table(report["policies"]),
    ]
    lines += [f"\nwarning: {text}" for text in report["warnings"]]
    return "\n".join(lines)


def _table(policies: Iterable[dict[str, Any]]) -> list[str]:
    rows = [["always", "SNIPS", "IPS", "effective", "played", ""]]
    rows += [
        [
            policy["arm"],
            _interval(policy["snips"]),
            _interval(policy["ips"]),
            f"{policy['effective']:,.1f}",
            f"{policy['played']:,}",
            "!" if policy["warnings"] else "",
        ]
        for policy in policies
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if place in (3, 4) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _interval(estimate: dict[str, float | None]) -> str:
    mean, low, high = (estimate[name] for name in ("mean", "low", "high"))
    if mean is None:
        return "unknown"
    if low is None or high is None:
        return f"{mean:.4g}"
    return f"{mean:.4g} ({low:.4g} to {high:.4g})"
