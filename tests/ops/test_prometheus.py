"""A real Prometheus scrapes a live service during a replay; then every query has an answer.

The replay makes all that the metrics tell of: splits, flagged balls, rewards of every outcome,
decisions in every state, failed requests, a store that hangs, and one without append-only file.
"""

import math
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from loadtest.environments import zigzag
from tests.support.dashboards import FILES, ROOT, Json, expand, load, queries, selectors
from tests.support.prometheus import JOB, Prometheus, running_prometheus
from tests.support.servers import Service, running_service, wait_for

RULES = ROOT / "ops/prometheus/alerts.yml"
STEADY, HASTY = "steady", "hasty"
TENANTS: dict[str, Json] = {STEADY: {}, HASTY: {"reward_window_seconds": 0.05}}
ENVIRONMENT = zigzag(6, noise=0.05)
# A ball fills and splits every few trials.
BUSY = {
    "arms": 6,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.05,
    "neighbours": 1,
    "flag_coefficient": 0.02,
}
# What Grafana puts in place of its variables; the window holds the whole replay.
VARIABLES = {
    "job": JOB,
    "instance": ".+",
    "tenant": f"({'|'.join(TENANTS)})",
    "__rate_interval": "2m",
    "__range": "1h",
}
PROMETHEUS_OWN = {"up", "ALERTS"}
QUERIES = [
    pytest.param(expression, id=f"{file.stem}: {title}")
    for file in FILES
    for title, expression in queries(load(file))
]
ALL_RULES = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], str]
) -> Iterator[Prometheus]:
    """A Prometheus that has seen the replay of a service; a second one is on the same store."""
    program, folder = need("prometheus"), tmp_path_factory.mktemp("replay")
    with ExitStack() as stack:
        first = running_service(folder, workers=2, ZOOMING_APPENDFSYNC="everysec")
        service = stack.enter_context(first)
        second = running_service(folder, redis_url=f"unix://{folder / 'data' / 'store.sock'}")
        urls = [service.url, stack.enter_context(second).url]
        found = stack.enter_context(
            running_prometheus(program, folder=folder, targets=urls, rules=RULES)
        )
        for tenant, more in TENANTS.items():
            service.client.put(f"/tenants/{tenant}", json=BUSY | more).raise_for_status()
        rng = np.random.default_rng(0)
        # A rate is over two scrapes at least, so each part is seen before the next begins.
        for part in (replay, hang, replay, lose_append_only_file):
            part(service, rng)
            wait_until_seen(found, service)
        yield found


def replay(service: Service, rng: np.random.Generator) -> None:
    """Some trials of one tenant, and rewards of another that all go wrong."""
    for _ in range(60):
        context = rng.random()
        chosen = select(service, STEADY, context)
        value = ENVIRONMENT.reward(rng, context, int(chosen["arm"]))
        reward(service, STEADY, chosen["decision_id"], value, status=200)
        reward(service, STEADY, chosen["decision_id"], value, status=200)
        reward(service, STEADY, chosen["decision_id"], value + 1, status=409)
    late = [select(service, HASTY, rng.random()) for _ in range(5)]
    wait_for(lambda: all(is_over(decision) for decision in late))
    for decision in late:
        reward(service, HASTY, decision["decision_id"], 0.5, status=410)
        reward(service, HASTY, f"no-such-{decision['decision_id']}", 0.5, status=404)
    assert service.client.get("/nowhere").status_code == 404
    assert service.client.post("/select", json={"tenant": STEADY}).status_code == 422


def hang(service: Service, rng: np.random.Generator) -> None:
    """The store stops answering until a select has failed."""
    pid = service.store()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = service.client.post("/select", json={"tenant": STEADY, "context": rng.random()})
        assert answer.status_code == 503
    finally:
        os.kill(pid, signal.SIGCONT)


def lose_append_only_file(service: Service, rng: np.random.Generator) -> None:
    """The store stops writing its append-only file."""
    with service.store_client() as client:
        client.config_set("appendonly", "no")
    select(service, STEADY, rng.random())


def wait_until_seen(prometheus: Prometheus, service: Service) -> None:
    """Returns when Prometheus knows of the last trial of each tenant from both services."""
    for tenant in TENANTS:
        counters = service.counters(tenant)
        trials = counters["trials_active"] + counters["trials_flagged"]
        # Or of a later one: a select that timed out may still be played.
        seen = f'sum by (instance) (zooming_trials_total{{tenant="{tenant}"}}) >= {trials}'
        query = f"count({seen}) == 2"
        wait_for(partial(prometheus.query, query), what=query)


def select(service: Service, tenant: str, context: float) -> dict[str, Any]:
    """The decision."""
    answer = service.client.post("/select", json={"tenant": tenant, "context": context})
    chosen: dict[str, Any] = answer.raise_for_status().json()
    return chosen


def reward(service: Service, tenant: str, decision_id: str, value: float, *, status: int) -> None:
    """Sends the reward, and expects this status."""
    body = {"tenant": tenant, "decision_id": decision_id, "reward": value}
    assert service.client.post("/reward", json=body).status_code == status


def is_over(decision: dict[str, Any]) -> bool:
    """Whether the decision's window has passed."""
    return datetime.fromisoformat(decision["expires_at"]) < datetime.now(UTC)


def exposed(prometheus: Prometheus) -> dict[str, str]:
    """The type of every metric of the service, by the names that its series have."""
    types: dict[str, str] = {}
    for name, (about, *_) in prometheus.get("metadata").items():
        if about["type"] == "histogram":
            types |= {f"{name}_{part}": "counter" for part in ("bucket", "sum", "count")}
        elif about["type"] == "counter":  # one of the two formats leaves the ending out
            types[f"{name.removesuffix('_total')}_total"] = "counter"
        else:
            types[name] = about["type"]
    return types


@pytest.mark.parametrize("expression", QUERIES)
def test_panel_has_something_to_show(prometheus: Prometheus, expression: str) -> None:
    query = expand(expression, VARIABLES)
    values = [float(series["value"][1]) for series in prometheus.query(query)]
    assert any(math.isfinite(value) for value in values), query


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_variables_have_values_to_choose_from(prometheus: Prometheus, file: Path) -> None:
    for variable in load(file)["templating"]["list"][1:]:
        text = expand(variable["query"]["query"], VARIABLES)
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", text)
        assert asked is not None, text
        assert prometheus.get(f"label/{asked[2]}/values", **{"match[]": asked[1]}), text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_annotations_can_be_asked_for(prometheus: Prometheus, file: Path) -> None:
    """Each is understood, whether or not it has anything to show."""
    annotations = load(file)["annotations"]["list"][1:]
    assert annotations, "the first is Grafana's own"
    for annotation in annotations:
        prometheus.query(expand(annotation["expr"], VARIABLES))


def test_rules_are_evaluated(prometheus: Prometheus) -> None:
    def rules() -> list[Json]:
        groups = prometheus.get("rules")["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        return found if all(rule["health"] != "unknown" for rule in found) else []

    found = wait_for(rules, what="an evaluation of every rule")
    assert {rule["name"]: rule.get("lastError") for rule in found if rule["health"] != "ok"} == {}
    assert len(found) == len(ALL_RULES)


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rule_looks_at_series_that_exist(prometheus: Prometheus, rule: Json) -> None:
    """Each metric it names was there with these labels, even where the rule is silent."""
    for selector in selectors(rule["expr"]):
        query = f"last_over_time({selector.metric}{{{selector.matchers}}}[5m])"
        assert prometheus.query(query), query


def test_rates_are_of_counters_and_of_nothing_else(prometheus: Prometheus) -> None:
    types = exposed(prometheus)
    named = [selector for expression in all_expressions() for selector in selectors(expression)]
    for selector in named:
        if selector.metric in PROMETHEUS_OWN or ":" in selector.metric:
            continue
        rated = selector.function in {"rate", "increase", "resets"}
        assert types[selector.metric] == ("counter" if rated else "gauge"), selector


def test_every_metric_is_in_a_dashboard(prometheus: Prometheus) -> None:
    shown = {
        selector.metric
        for file in FILES
        for _, expression in queries(load(file))
        for selector in selectors(expression)
    }
    for name in prometheus.get("metadata"):
        parts = {name, *(f"{name}_{part}" for part in ("total", "bucket"))}
        assert parts & shown, name


def test_two_instances_count_the_store_once_and_their_workers_each(
    prometheus: Prometheus,
) -> None:
    by_title = {title: query for file in FILES for title, query in queries(load(file))}

    def shown(title: str) -> float:
        (series,) = prometheus.query(expand(by_title[title], VARIABLES))
        return float(series["value"][1])

    one, other = prometheus.query('sum by (instance) (zooming_balls{phase="flagged"})')
    assert shown("Flagged balls") == float(one["value"][1]) == float(other["value"][1])
    assert shown("Tenants") == len(TENANTS)
    assert shown("Live workers") == 3


def test_what_all_instances_report_alike_is_not_summed(prometheus: Prometheus) -> None:
    """The state of tenants is in the store: each instance reports it, and a sum counts it twice."""
    state = {series["metric"]["__name__"] for series in prometheus.query('{tenant!=""}')}
    assert "zooming_trials_total" in state
    for expression in all_expressions():
        for selector in selectors(expression):
            around = re.sub(r"\w+\($", "", selector.before) if selector.window else selector.before
            if selector.metric in state:
                assert re.search(r"\bmax by \([^)]*\) \($", around), expression


def all_expressions() -> list[str]:
    """Of dashboards and rules."""
    shown = [expression for file in FILES for _, expression in queries(load(file))]
    return shown + [rule["expr"] for rule in ALL_RULES]
