"""The uplift that `GET /tenants` tells, against a computation by hand from the decisions."""

import random
from statistics import mean, variance
from typing import Any

import pytest

from tests.api.calls import call, create, decide, log_of, look, reward, select
from tests.support.servers import Service

DEVIATIONS = 1.959964


def uplift_of(service: Service, tenant: str) -> Any:
    """What is told of it."""
    return call(service, "GET", f"/tenants/{tenant}").json()["uplift"]


def patch(service: Service, tenant: str, **changes: Any) -> None:
    """Changes the tenant."""
    assert call(service, "PATCH", f"/tenants/{tenant}", changes).status_code == 200


@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_the_numbers_are_those_of_the_decisions(service: Service, preset: str) -> None:
    """Rewarded ones alone; censored and open ones are no part of it."""
    chance = random.Random(0)
    tenant = create(
        service, preset=preset, arms=["bad", "good"], holdout=0.4, log_entries=1000,
        reward_range=[-5, 5],
    )  # fmt: skip
    given: dict[bool, list[float]] = {True: [], False: []}
    for trial in range(150):
        selection = select(service, tenant, chance.random()).json()
        if trial % 7 == 0:
            continue
        is_held = look(service, tenant, selection["decision_id"]).json()["holdout"]
        value = chance.gauss(2 if selection["arm"] == "good" else -1, 1)
        assert reward(service, tenant, selection["decision_id"], value).status_code == 200
        given[is_held].append(value)
    learned, holdout = given[False], given[True]
    assert min(len(learned), len(holdout)) > 20
    told = uplift_of(service, tenant)
    assert told["learned"] == {"rewards": len(learned), "mean": pytest.approx(mean(learned))}
    assert told["holdout"] == {"rewards": len(holdout), "mean": pytest.approx(mean(holdout))}
    difference = mean(learned) - mean(holdout)
    margin = DEVIATIONS * sum(variance(s) / len(s) for s in (learned, holdout)) ** 0.5
    assert told["difference"] == pytest.approx(difference)
    assert told["low"] == pytest.approx(difference - margin)
    assert told["high"] == pytest.approx(difference + margin)
    held = [event["holdout"] for event in log_of(service, tenant) if event["event"] == "rewarded"]
    assert (held.count(False), held.count(True)) == (len(learned), len(holdout))
    counters = service.counters(tenant)
    assert counters["rewards_holdout"] == len(holdout)
    assert counters["rewards_applied"] == len(learned)
    assert counters["reward_sum"] == pytest.approx(sum(learned))


def test_switched_on_and_off(service: Service, twin: Service) -> None:
    """Both sides are counted from when there is a holdout, and anew the next time."""
    tenant = create(service)
    assert uplift_of(service, tenant) is None
    reward(service, tenant, decide(service, tenant))
    nobody = {"rewards": 0, "mean": None}
    empty = {
        **{"learned": nobody, "holdout": nobody},
        **{"difference": None, "low": None, "high": None},
    }
    patch(service, tenant, holdout=1.0)
    assert uplift_of(twin, tenant) == empty
    first = decide(twin, tenant)
    assert look(twin, tenant, first).json()["holdout"]
    reward(twin, tenant, first, 0.5)
    assert uplift_of(service, tenant)["holdout"] == {"rewards": 1, "mean": 0.5}

    # Another share of the same holdout: what was counted still holds.
    left_open = decide(twin, tenant)
    patch(service, tenant, holdout=0.5)
    assert uplift_of(service, tenant)["holdout"]["rewards"] == 1

    patch(service, tenant, holdout=0.0)
    assert uplift_of(twin, tenant) is None
    assert not look(twin, tenant, decide(twin, tenant)).json()["holdout"]
    assert reward(twin, tenant, left_open).json()["status"] == "applied"
    patch(service, tenant, holdout=1.0)
    assert uplift_of(service, tenant) == empty
