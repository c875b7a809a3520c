"""The flags of `zooming loadtest`; nothing heavy is imported, so that --help answers at once."""

import argparse
import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DESCRIPTION = """\
Replays an environment whose best arms are known against a running service, shows how that goes, and
reports latency, learning and errors. The service's counts must be those of the client. Tenants are
made for the test and deleted after it. ZOOMING_ADMIN_KEY holds the service's admin key, if it has
one. Exit code: 0 fine, 1 a threshold was missed or the counts differ, 2 a flag cannot be used.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds them all."""
    parser.add_argument(
        "--url", type=_url, default="http://127.0.0.1:8000", help="the service (%(default)s)"
    )
    _add_load(parser.add_argument_group("the load"))
    _add_environment(parser.add_argument_group("the environment and its tenants"))
    _add_rewards(parser.add_argument_group("the rewards"))
    _add_thresholds(parser.add_argument_group("thresholds, for the exit code"))
    _add_report(parser.add_argument_group("the report"))


def _add_load(group: argparse._ArgumentGroup) -> None:
    loop = group.add_mutually_exclusive_group()
    loop.add_argument(
        "--rate",
        type=_positive,
        metavar="R",
        help="open loop: selects a second in all, at random times, whatever the answers take",
    )
    loop.add_argument(
        "--clients",
        type=count,
        default=8,
        metavar="N",
        help="closed loop: so many clients, each waiting for its answers (%(default)s)",
    )
    length = group.add_mutually_exclusive_group()
    length.add_argument(
        "--trials",
        type=count,
        metavar="N",
        help="end after so many selects (10000 when --forever)",
    )
    length.add_argument("--seconds", type=_positive, metavar="S", help="end after so long (30)")
    group.add_argument(
        "--forever",
        action="store_true",
        help="then start over with new tenants, until told to stop",
    )
    group.add_argument(
        "--processes",
        type=count,
        default=1,
        metavar="N",
        help="processes that send; more when the report says the client is late (%(default)s)",
    )
    group.add_argument(
        "--timeout",
        dest="timeout_seconds",
        type=_positive,
        default=10.0,
        metavar="S",
        help="seconds after which a request has failed (%(default)g)",
    )
    group.add_argument("--seed", type=int, default=0, help="of all that is random (%(default)s)")


def _add_environment(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--environment",
        default="zigzag",
        metavar="NAME",
        help="zigzag, types, continuum, bernoulli, or your own as MODULE:FUNCTION (%(default)s)",
    )
    group.add_argument("--arms", type=count, default=20, metavar="K", help="(%(default)s)")
    group.add_argument(
        "--noise",
        type=_number,
        default=0.05,
        metavar="SIGMA",
        help="standard deviation of a reward (%(default)s; bernoulli has its own)",
    )
    group.add_argument("--tenants", type=count, default=1, metavar="N", help="(%(default)s)")
    group.add_argument(
        "--name",
        help="tenants are called NAME-1, NAME-2, …; ones that exist are DELETED first "
        "(by default a new name; loadtest when --forever)",
    )
    group.add_argument("--keep", action="store_true", help="leave the tenants there at the end")
    group.add_argument("--preset", help="of the tenants (the service's default)")
    group.add_argument(
        "--set",
        dest="parameters",
        type=_parameter,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the tenants, such as lipschitz=2; may be given several times",
    )


def _add_rewards(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--delay",
        default="0",
        metavar="SPEC",
        help="when a reward comes after its select, in seconds: a number, exponential:MEAN, "
        "uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA (%(default)s)",
    )
    group.add_argument(
        "--lost",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="share of rewards that never come (%(default)g)",
    )
    group.add_argument(
        "--duplicates",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="share of rewards that are sent twice (%(default)g)",
    )


def _add_thresholds(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-p99-ms", type=_positive, metavar="MS", help="99th percentile of select's latency"
    )
    group.add_argument(
        "--max-error-share", type=_share, metavar="SHARE", help="failed requests among all"
    )
    group.add_argument("--min-rate", type=_positive, metavar="R", help="selects a second")
    group.add_argument(
        "--min-reward-share",
        type=_number,
        metavar="SHARE",
        help="how far rewards come from a random arm (0) to the optimum (1) in the last quarter",
    )


def _add_report(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--report", type=Path, metavar="DIR", help="write report.md, report.json and report.html"
    )
    group.add_argument(
        "--shared",
        action="store_true",
        help="others use the service too, or it stands behind a balancer: its HTTP counts are "
        "shown, not judged",
    )


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 0 on")
    return number


def _positive(text: str) -> float:
    number = _number(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _share(text: str) -> float:
    number = _number(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no share: give a number from 0 to 1")
    return number


def count(text: str) -> int:
    """A whole number from 1 on; nothing else is taken for a flag that counts."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 on")
    return int(text)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no number for a port, or half an IPv6 address
        usable = False
    if not usable:
        raise argparse.ArgumentTypeError(f"'{text}' is no address such as http://127.0.0.1:8000")
    return text.rstrip("/")


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
