"""The dashboards' JSON: what Grafana's dashboard linter asks, and what this service's metrics need.

Whether each query has an answer is tested against a live service, in test_prometheus.py.
"""

import itertools
import re

import pytest
import yaml

from tests.support.dashboards import (
    FILES,
    ROOT,
    Json,
    load,
    panels,
    queries,
    selectors,
    variables_of,
)

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {"bytes", "cpm", "cps", "ops", "percentunit", "reqps", "s", "short"}
# The label that each selector is narrowed by, besides the job; some metrics do not have it.
SCOPES = {"zooming-learning": "tenant", "zooming-service": "instance"}
WITHOUT_SCOPE = re.compile(r"ALERTS$|zooming_split_seconds_")
COUNTER = re.compile(r"_(?:total|count|sum|bucket)$")
SUMS_THAT_FALL = {"zooming_reward_sum"}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def dashboard(request: pytest.FixtureRequest) -> Json:
    """One dashboard."""
    return load(request.param)


def test_both_dashboards_are_there_and_lead_to_each_other() -> None:
    boards = [load(file) for file in FILES]
    assert [(file.stem, board["uid"]) for file, board in zip(FILES, boards, strict=True)] == [
        ("learning", "zooming-learning"),
        ("service", "zooming-service"),
    ]
    for board in boards:
        (link,) = board["links"]
        assert (link["type"], link["keepTime"]) == ("dashboards", True)
        assert all(set(link["tags"]) <= set(other["tags"]) for other in boards)


def test_dashboard_refreshes_and_shares_its_tooltip(dashboard: Json) -> None:
    assert dashboard["refresh"] == "10s"
    assert dashboard["graphTooltip"] == 1
    assert dashboard["schemaVersion"] >= 39, "Grafana 11"
    assert dashboard["title"]
    assert dashboard["description"]
    assert "id" not in dashboard, "an id is one Grafana's own"


def test_datasource_is_a_variable_and_starts_as_the_provisioned_one(dashboard: Json) -> None:
    provisioned = yaml.safe_load(
        (ROOT / "ops/grafana/provisioning/datasources/prometheus.yml").read_text()
    )
    first, *others = dashboard["templating"]["list"]
    assert (first["type"], first["name"], first["label"], first["query"]) == (
        "datasource",
        "datasource",
        "Data source",
        "prometheus",
    )
    assert first["current"]["value"] == provisioned["datasources"][0]["uid"]
    assert all(variable["datasource"] == DATASOURCE for variable in others)


def test_everything_asks_the_datasource_variable(dashboard: Json) -> None:
    for panel in panels(dashboard):
        assert panel["datasource"] == DATASOURCE, panel["title"]
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"])
    own, *others = dashboard["annotations"]["list"]
    assert own["builtIn"]
    assert all(annotation["datasource"] == DATASOURCE for annotation in others)
    # Inputs are asked for at an import by hand, and never resolved in provisioned files.
    assert "__inputs" not in dashboard
    assert not any(name.startswith("DS_") for name in variables_of(str(dashboard)))


def test_variables_are_the_ones_used(dashboard: Json) -> None:
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert defined == {"datasource", "job", SCOPES[dashboard["uid"]]}
    assert variables_of(str(dashboard)) == defined


def test_several_tenants_or_instances_can_be_chosen_but_one_job(dashboard: Json) -> None:
    """Two jobs are two stores, and the maximum over both would mix their tenants."""
    by_name = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    scope = by_name[SCOPES[dashboard["uid"]]]
    assert (scope["multi"], scope["includeAll"], scope["allValue"]) == (True, True, ".+")
    assert (by_name["job"]["multi"], by_name["job"]["includeAll"]) == (False, False)


def test_panels_explain_themselves(dashboard: Json) -> None:
    assert all(panel["title"] for panel in dashboard["panels"])
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles)
    for panel in panels(dashboard):
        description = panel["description"]
        assert "?" in description, f"{panel['title']}: which question does it answer?"
        assert description.endswith((".", "?")), panel["title"]


def test_panels_have_units_thresholds_and_legends(dashboard: Json) -> None:
    for panel in panels(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS, panel["title"]
        values = [step["value"] for step in defaults["thresholds"]["steps"]]
        assert values[0] is None
        assert values[1:] == sorted(values[1:]), panel["title"]
        assert panel["targets"], panel["title"]
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert all(legends), panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs), panel["title"]


def test_panels_fill_the_grid_without_overlap(dashboard: Json) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = []
    for panel in dashboard["panels"]:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        assert x >= 0
        assert x + w <= COLUMNS, panel["title"]
        places.append({(x + right, y + down) for right in range(w) for down in range(h)})
    for one, other in itertools.combinations(places, 2):
        assert not one & other
    bottom = max(y for place in places for _, y in place) + 1
    assert sum(map(len, places)) == COLUMNS * bottom, "there are holes"


def test_queries_are_narrowed_by_the_variables(dashboard: Json) -> None:
    scope = SCOPES[dashboard["uid"]]
    for title, expression in queries(dashboard):
        for selector in selectors(expression):
            assert 'job=~"$job"' in selector.matchers, title
            scoped = f'{scope}=~"${scope}"' in selector.matchers
            assert scoped or WITHOUT_SCOPE.match(selector.metric), title


def test_counters_are_shown_as_rates_and_gauges_are_not(dashboard: Json) -> None:
    for title, expression in queries(dashboard):
        for selector in selectors(expression):
            counter = COUNTER.search(selector.metric) and selector.metric not in SUMS_THAT_FALL
            rates = {"rate", "increase", "resets"} if counter else {"delta"}
            if counter or selector.window:
                assert selector.function in rates, (title, selector.metric)
                # Over the whole range only where one number is to stand for it.
                whole = selector.window == "$__range" and selector.function != "rate"
                assert whole or selector.window == "$__rate_interval", (title, selector.metric)


def test_selectors_finds_every_metric() -> None:
    """The checks above see only what this finds."""
    found = selectors(
        'sum by (le, route) (rate(a_bucket{route!~"/b{c}|d"}[$__rate_interval]))\n'
        '/ clamp_min(max (e), 1e-9) or label_replace(vector(0), "kind", "f", "", "") and g:h:i5m'
    )
    assert [(s.metric, s.function, s.matchers, s.window) for s in found] == [
        ("a_bucket", "rate", 'route!~"/b{c}|d"', "$__rate_interval"),
        ("e", "max", "", ""),
        ("g:h:i5m", "", "", ""),
    ]
