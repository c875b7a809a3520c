"""The command `zooming`."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from service.errors import ZoomingError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command named by the first argument."""
    parser = argparse.ArgumentParser(
        prog="zooming",
        description="Approx-Zooming as a service: the arm to play for a context, learned online.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_tenants(commands)
    _add_demo(commands)
    _add_loadtest(commands)
    _add_simulate(commands)
    _add_evaluate(commands)
    _add_replay(commands)
    _add_bench(commands)
    options = vars(parser.parse_args(arguments))
    run = options.pop("run")
    try:
        return int(run(**options) or 0)
    except ZoomingError as error:
        print(f"zooming: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = commands.add_parser(
        "serve",
        help="serve the HTTP API",
        description="Serves the HTTP API. Each flag has a variable: --redis-url is "
        "ZOOMING_REDIS_URL, and so on; ZOOMING_ADMIN_KEY has no flag, so that it stays out of "
        "process lists.",
    )
    serve.add_argument("--host", help="address to bind (127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to bind (8000)")
    serve.add_argument("--workers", type=int, metavar="N", help="worker processes (1)")
    serve.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the private store (zooming-data)"
    )
    serve.add_argument(
        "--redis-url", metavar="URL", help="a Redis 7+ or Valkey to use instead of a private store"
    )
    serve.set_defaults(run=_serve)


def _serve(**flags: object) -> None:
    from service.serve import serve
    from service.settings import Settings

    serve(Settings.load(flags))


def _add_tenants(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from service.tenants_command import DESCRIPTION, add_flags

    parser = commands.add_parser(
        "tenants", help="manage the tenants of a running service", description=DESCRIPTION
    )
    add_flags(parser)
    parser.set_defaults(run=_tenants)


def _tenants(*, action: str, **flags: Any) -> None:
    from service import tenants_actions

    tenants_actions.run(getattr(tenants_actions, action), **flags)


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser(
        "demo",
        help="start a service, replay an environment against it, show what it learned",
        description="Starts a service with a private store in a temporary folder, replays the "
        "zigzag environment against it over HTTP, and shows what was learned.",
    )
    demo.add_argument("--trials", type=int, default=4000, metavar="N", help="trials (4000)")
    demo.add_argument("--port", type=int, default=8000, help="port to bind (8000, or a free one)")
    demo.add_argument("--exit", action="store_true", help="stop at the end")
    demo.set_defaults(run=_demo)


def _demo(*, trials: int, port: int, exit: bool) -> None:  # the flag's name
    from loadtest.demo import demo

    demo(trials=trials, port=port, stay=not exit)


def _add_loadtest(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from loadtest.flags import DESCRIPTION, add_flags

    parser = commands.add_parser(
        "loadtest",
        help="replay an environment against a running service, and report on it",
        description=DESCRIPTION,
    )
    add_flags(parser)
    parser.set_defaults(run=partial(_loadtest, parser))


def _loadtest(parser: argparse.ArgumentParser, **flags: object) -> int:
    from loadtest.loadtest import loadtest
    from loadtest.plan import BadPlan, Plan

    try:
        return loadtest(Plan.load(flags))
    except BadPlan as error:
        parser.error(str(error))


def _add_simulate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from loadtest.flags import count

    simulate = commands.add_parser(
        "simulate",
        help="rerun the paper's experiments, and our own, in memory",
        description="Reruns the paper's experiments and some of our own with the sequential "
        "learner, over all cores, and holds the paper's claims against the numbers. What is "
        "finished is kept: stopped with Ctrl-C, it goes on from there when it is called again.",
    )
    simulate.add_argument(
        "--seeds", type=count, default=10, metavar="N", help="seeds of each system (%(default)s)"
    )
    simulate.add_argument(
        "--trials", type=count, default=100_000, metavar="T", help="of each run (%(default)s)"
    )
    simulate.add_argument(
        "--out",
        dest="folder",
        type=Path,
        default=Path("simulation-results"),
        metavar="DIR",
        help="where finished runs and results.csv are kept (%(default)s)",
    )
    simulate.add_argument(
        "--docs",
        type=Path,
        metavar="DIR",
        help="draw the figures into DIR/simulation and put the tables into DIR/RESULTS.md",
    )
    simulate.add_argument(
        "--engine",
        dest="with_engine",
        action="store_true",
        help="then play each setting and system of the paper once through steps and store",
    )
    simulate.add_argument(
        "--compare",
        action="store_true",
        help="instead: our presets beside the learners of others, tuned, in many environments",
    )
    simulate.add_argument(
        "--long",
        dest="with_long",
        action="store_true",
        help="with --compare: also a run of ten times the trials",
    )
    simulate.add_argument(
        "--only",
        metavar="LEARNER",
        action="append",
        default=[],
        help="with --compare: just this row of its table, such as adaptive; may be repeated",
    )
    simulate.add_argument(
        "--scales",
        action="store_true",
        help="instead: what a context scale is worth where contexts are skewed",
    )
    simulate.set_defaults(run=_simulate)


def _simulate(
    *,
    compare: bool,
    scales: bool,
    with_long: bool,
    only: list[str],
    with_engine: bool,
    **flags: Any,
) -> None:
    if compare:
        from loadtest.simulation.compare import compare as run_comparison

        run_comparison(**flags, with_long=with_long, only=only)
        return
    if scales:
        from loadtest.simulation.scales import scales as run_scales

        run_scales(**flags)
        return
    from loadtest.simulation.simulate import simulate

    simulate(**flags, with_engine=with_engine)


def _add_evaluate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="estimate from a decision log what always playing one arm would have earned",
        description="Reads a decision log (GET /tenants/TENANT/log) and estimates, off-policy, "
        "what always playing one arm would have earned: by IPS and SNIPS, each with its 95 % "
        "interval, beside what the policy that decided has earned. It needs true propensities "
        "below 1: set exploration_floor or holdout for the tenant.",
    )
    evaluate.add_argument("log", metavar="LOG", help="a file of NDJSON; - for the standard input")
    evaluate.add_argument(
        "--arm",
        dest="arms",
        action="append",
        default=[],
        metavar="ARM",
        help="just this arm; may be repeated (by default every arm that was played)",
    )
    evaluate.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    evaluate.set_defaults(run=_evaluate)


def _evaluate(**flags: Any) -> None:
    from service.evaluate import evaluate

    evaluate(**flags)


def _add_replay(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "replay",
        help="have a new tenant live through a decision log once more",
        description="Reads a decision log (GET /tenants/TENANT/log) from its beginning and has a "
        "new tenant, made with the configuration of the other and without a holdout, live through "
        "it once more: it learns the same. ZOOMING_ADMIN_KEY holds the service's admin key, if it "
        "has one. Ends with 1 if the tenant is not as the log tells.",
    )
    parser.add_argument("log", metavar="LOG", help="a file of NDJSON; - for the standard input")
    parser.add_argument("--tenant", required=True, metavar="NEW", help="the new tenant")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the service (%(default)s)")
    parser.set_defaults(run=_replay)


def _replay(**flags: Any) -> int:
    from service.replay import replay

    return replay(**flags)


def _add_bench(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    bench = commands.add_parser(
        "bench",
        help="measure sub-partitions, the regret proxies, the memory of balls and decisions",
        description="Measures time and peak memory of a sub-partition, from 100 to 5,000 arms, "
        "the regret proxies beside the regret, and what balls and decisions take in the store.",
    )
    bench.set_defaults(run=_bench)


def _bench() -> None:
    from loadtest.bench import bench

    bench()


if __name__ == "__main__":
    sys.exit(main())
