"""Tenants of the preset `adaptive`, which is the default: what they take, and what they show."""

from typing import Any

import pytest

from tests.api.calls import CONFIG, assert_problem, balls_of, call, reward, select
from tests.support.servers import Service


def put(service: Service, tenant: str, config: dict[str, Any]) -> Any:
    """The answer to a creation."""
    return call(service, "PUT", f"/tenants/{tenant}", config)


def test_a_tenant_needs_nothing_but_its_arms(service: Service) -> None:
    """What is left out is learned, and the configuration says so."""
    config = put(service, "bare", {"arms": 3}).json()["config"]
    learned = {"noise": "auto", "lipschitz": "auto", "horizon": None}
    assert config.items() >= ({"preset": "adaptive"} | learned).items()
    assert not config.keys() & {"buckets", "similarity", "patience"}


@pytest.mark.parametrize("field", ["buckets", "neighbours", "similarity", "sampling"])
def test_what_only_the_paper_knows_is_refused(service: Service, field: str) -> None:
    """With the way out: the presets that take it."""
    value = {"similarity": {"kind": "none"}, "sampling": "sequential"}.get(field, 2)
    answer = put(service, "odd", {"arms": 3, field: value})
    assert_problem(answer, 422, field, "simulation")
    assert put(service, "odd", CONFIG | {field: value}).status_code == 201


@pytest.mark.parametrize("preset", ["paper", "simulation"])
@pytest.mark.parametrize("field", ["horizon", "noise"])
def test_the_paper_must_be_told_noise_and_horizon(
    service: Service, preset: str, field: str
) -> None:
    body = CONFIG | {"preset": preset}
    assert_problem(put(service, "odd", body | {field: None}), 422, field, preset)
    assert_problem(put(service, "odd", body | {"lipschitz": "auto"}), 422, "lipschitz", preset)
    del body[field]
    assert_problem(put(service, "odd", body), 422, field, preset)


def test_its_partition_is_whole_and_in_the_tenants_own_units(service: Service) -> None:
    """The root holds the arms not yet tried; means and bounds are rewards as they were sent."""
    put(service, "shop", {"arms": ["a", "b"], "reward_range": [0, 100]})
    first = balls_of(service, "shop")
    assert [(b["phase"], b["arms"], b["fill"]) for b in first] == [("flagged", ["a", "b"], 0.0)]
    chosen = select(service, "shop").json()
    assert (chosen["arm"], chosen["ball"], chosen["phase"]) == ("a", 0, "flagged")
    assert reward(service, "shop", chosen["decision_id"], 80.0).json()["status"] == "applied"
    balls = balls_of(service, "shop")
    root, *curve = balls
    assert (root["arms"], root["fill"]) == (["b"], 0.5)
    assert sum(b["interval"][1] - b["interval"][0] for b in curve) == 1.0
    assert sum(b["n"] for b in curve) == 1
    assert all(0 < b["mean"] < 100 < b["ucb"] + 50 for b in curve)
    counters = call(service, "GET", "/tenants/shop").json()["counters"]
    assert counters["reward_sum"] == 80.0
    assert counters["regret_upper"] == pytest.approx(20.0)
