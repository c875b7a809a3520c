"""The decision log of a service at work, read by what `zooming evaluate` reads it with."""

import json
from typing import Any

import httpx
import numpy as np
import pytest

from service.decision_log import DecisionLog
from service.evaluate import report_on
from tests.api.calls import call, create, reward, select
from tests.support.servers import Service

ARMS = ["red", "green", "blue"]
WORTH = {"red": 0.2, "green": 0.5, "blue": 0.9}
DECISIONS = 400


@pytest.fixture
def tenant(service: Service) -> str:
    """One that explores, holds out and logs."""
    config: dict[str, Any] = {"exploration_floor": 0.3, "holdout": 0.2, "log_entries": 100_000}
    return create(service, arms=ARMS, **config)


def read(service: Service, tenant: str, after: str = "") -> httpx.Response:
    """The log from there on."""
    answer = call(service, "GET", f"/tenants/{tenant}/log?after={after}")
    assert answer.status_code == 200, answer.text
    return answer


def test_the_log_of_a_service_tells_what_each_arm_is_worth(service: Service, tenant: str) -> None:
    """The weights are those of the answers; an arm's rewards are all equal, so SNIPS is exact."""
    rng = np.random.default_rng(1)
    weights = dict.fromkeys(ARMS, 0.0)
    for x in rng.random(DECISIONS).tolist():
        chosen = select(service, tenant, x).json()
        weights[chosen["arm"]] += 1 / chosen["propensity"]
        reward(service, tenant, chosen["decision_id"], WORTH[chosen["arm"]])
    select(service, tenant, 0.5)
    censored = select(service, tenant, 0.5).json()["decision_id"]
    assert call(service, "POST", f"/decisions/{tenant}/{censored}/censor").status_code == 200
    ranking = select(service, tenant, 0.5, n=2).json()["ranking"]
    for chosen in ranking:
        reward(service, tenant, chosen["decision_id"], WORTH[chosen["arm"]])
    weights[ranking[0]["arm"]] += 1 / ranking[0]["propensity"]
    lines = read(service, tenant).content.splitlines()

    report = report_on(DecisionLog.read(lines))
    counts = report["decisions"]
    assert (counts["used"], counts["open"], counts["censored"]) == (DECISIONS + 1, 1, 1)
    assert (counts["ranked"], counts["incomplete"], counts["certain"]) == (1, 0, 0)
    # A fifth, within five standard deviations.
    assert abs(counts["holdout"] - 0.2 * DECISIONS) < 5 * (0.2 * 0.8 * DECISIONS) ** 0.5
    for policy in report["policies"]:
        arm = policy["arm"]
        assert policy["snips"]["mean"] == pytest.approx(WORTH[arm])
        assert policy["ips"]["mean"] == pytest.approx(WORTH[arm] * weights[arm] / (DECISIONS + 1))
        assert "weights_off" not in policy["warnings"]
    assert [policy["arm"] for policy in report["policies"]] == ["blue", "green", "red"]

    # In pages that overlap, as a reader that lost its place may have them, it is the same log.
    page = read(service, tenant, after=json.loads(lines[99])["id"]).content.splitlines()
    assert page == lines[100:]
    overlapping = report_on(DecisionLog.read([*lines[:150], *page]))
    assert overlapping["decisions"] == counts
    assert overlapping["policies"] == report["policies"]
