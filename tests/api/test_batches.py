"""Batches: each item as if it were sent alone, in the order given, in one round trip."""

import time
from typing import Any

import pytest
import redis

from service.algorithm import AdaptiveLearner
from tests.api.calls import (
    CONFIG,
    assert_problem,
    call,
    content_of,
    create,
    decide,
    reward,
    select,
)
from tests.support.engine import learner_for, new_name
from tests.support.servers import Service


def selects(service: Service, tenant: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """What became of each item."""
    answer = call(service, "POST", "/select/batch", {"tenant": tenant, "items": list(items)})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def rewards(service: Service, tenant: str, *items: tuple[str, float]) -> list[dict[str, Any]]:
    """What became of each decision's reward."""
    body = [{"decision_id": decision_id, "reward": value} for decision_id, value in items]
    answer = call(service, "POST", "/reward/batch", {"tenant": tenant, "items": body})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def paired(found: list[dict[str, Any]], values: list[float]) -> list[tuple[str, float]]:
    """The decisions with their rewards."""
    return [(one["decision_id"], value) for one, value in zip(found, values, strict=True)]


@pytest.mark.parametrize("config", [{"arms": 6}, CONFIG | {"arms": 6}])
def test_a_batch_plays_what_single_calls_play(service: Service, config: dict[str, Any]) -> None:
    """Selects of a batch, then its rewards; a twin tenant gets them one by one."""
    batch, single = new_name(), new_name()
    for tenant in (batch, single):
        assert call(service, "PUT", f"/tenants/{tenant}", config).status_code == 201
    shown = ("arm", "ball", "phase", "propensity")
    contexts = [(i * 0.37) % 1 for i in range(40)]
    for start in range(0, 40, 10):
        part = contexts[start : start + 10]
        found = selects(service, batch, *({"context": x} for x in part))
        alone = [select(service, single, x).json() for x in part]
        assert [one["status"] for one in found] == ["selected"] * 10
        for one, other in zip(found, alone, strict=True):
            assert [one[name] for name in shown] == [other[name] for name in shown]
        told = rewards(service, batch, *paired(found, part))
        for one, (decision_id, x) in zip(told, paired(alone, part), strict=True):
            answer = reward(service, single, decision_id, x).json()
            assert (one["status"], one["ball"]) == (answer["status"], answer["ball"])


def test_a_split_that_falls_due_in_a_batch_is_made_at_its_end(service: Service) -> None:
    tenant = create(service, arms=6, neighbours=1)
    contexts = [(i * 0.37) % 1 for i in range(10)]
    found = selects(service, tenant, *({"context": x} for x in contexts))
    told = rewards(service, tenant, *paired(found, contexts))
    assert [(one["status"], one["ball"]) for one in told] == [("applied", 0)] * 10
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["splits"] == 1
    assert select(service, tenant, 0.5).json()["ball"] > 0


def test_a_batch_of_a_thousand_is_the_learners_course(service: Service) -> None:
    """As many as may be: all selected before any is rewarded, in order."""
    tenant = new_name()
    body = {"arms": 20, "noise": 0.1, "horizon": 5000}
    assert call(service, "PUT", f"/tenants/{tenant}", body).status_code == 201
    learner: AdaptiveLearner = learner_for(body)
    contexts = [(i * 0.618) % 1 for i in range(1000)]
    found = selects(service, tenant, *({"context": x} for x in contexts))
    decisions = [learner.select(x) for x in contexts]
    assert [int(one["arm"]) for one in found] == [decision.arm for decision in decisions]
    told = rewards(service, tenant, *paired(found, contexts))
    assert {one["status"] for one in told} == {"applied"}
    for decision, x in zip(decisions, contexts, strict=True):
        learner.reward(decision, x)
    after = select(service, tenant, 0.5).json()
    assert int(after["arm"]) == learner.select(0.5).arm
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["rewards_applied"] == 1000


def test_each_selected_item_has_its_own_status(service: Service) -> None:
    tenant = create(service)
    first = select(service, tenant, 0.5, decision_id="mine").json()
    repeat, other, new, twice = selects(
        service,
        tenant,
        {"context": 0.5, "decision_id": "mine"},
        {"context": 0.6, "decision_id": "mine"},
        {"context": 0.7, "decision_id": "new"},
        {"context": 0.7, "decision_id": "new"},
    )
    assert repeat == first | {"status": "selected"}
    assert (other["status"], other["decision_id"]) == ("conflict", "mine")
    assert other["problem"]["status"] == 409
    assert "use a new id" in other["problem"]["detail"]
    assert new == twice


def test_each_rewarded_item_has_its_own_status(service: Service) -> None:
    """The same decision twice in one batch is credited once."""
    tenant = create(service)
    one, two = decide(service, tenant), decide(service, tenant)
    reward(service, tenant, two, 1.0)
    found = rewards(
        service, tenant, (one, 0.5), (one, 0.5), (one, 0.6), (two, 1.0), (two, 0.0), ("none", 1.0)
    )
    assert [item["status"] for item in found] == [
        *("applied", "duplicate", "conflict", "duplicate", "conflict", "unknown_decision")
    ]
    assert [item["decision_id"] for item in found] == [one, one, one, two, two, "none"]
    problems = {item["status"]: item["problem"]["status"] for item in found if "problem" in item}
    assert problems == {"conflict": 409, "unknown_decision": 404}
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["rewards_applied"] == 2


def test_a_late_item_is_told_so(service: Service) -> None:
    tenant = create(service, reward_window_seconds=0.001)
    decision_id = decide(service, tenant)
    time.sleep(0.05)
    (late,) = rewards(service, tenant, (decision_id, 1.0))
    assert (late["status"], late["problem"]["status"]) == ("late", 410)


LINEAR = {"kind": "linear", "low": 0.0, "high": 10.0}


@pytest.mark.parametrize(
    "config, misfit, told",
    [
        ({}, {"context": 1.5}, "context: "),
        ({"context_scale": LINEAR | {"outside": "refuse"}}, {"context": 11.0}, "context: "),
        ({"context_scale": {"kind": "auto"}}, {"context": 1, "eligible": ["gone"]}, "'gone'"),
        ({}, {"context": 0.5, "eligible": ["0", "gone"]}, "eligible: There is no arm 'gone'"),
    ],
)
def test_an_item_that_does_not_fit_the_tenant_is_invalid_and_the_others_are_taken(
    service: Service, config: dict[str, Any], misfit: dict[str, Any], told: str
) -> None:
    """It is told what it would be told alone; a twin without it goes the same way."""
    tenant, twin = create(service, **config), create(service, **config)
    others = [{"context": x, "n": 2} for x in (0.5, 0.25, 1.0)]
    first, invalid, *rest = selects(service, tenant, others[0], misfit, *others[1:])
    assert [one["status"] for one in (first, *rest)] == ["selected"] * 3
    for one, other in zip((first, *rest), selects(service, twin, *others), strict=True):
        for name in ("arm", "ball", "phase", "mapped_context"):
            assert one[name] == other[name]
    assert (invalid["status"], invalid["problem"]["status"]) == ("invalid", 422)
    assert told in invalid["problem"]["detail"]
    alone = call(service, "POST", "/select", {"tenant": tenant, **misfit})
    assert_problem(alone, 422, invalid["problem"]["detail"])
    assert_problem(reward(service, tenant, invalid["decision_id"]), 404)
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["trials_flagged"] == 6


def test_an_item_of_another_form_is_named_and_nothing_is_taken(
    service: Service, raw: "redis.Redis"
) -> None:
    tenant = create(service)
    before = content_of(raw)
    body = {"tenant": tenant, "items": [{"context": 0.5}, {"context": "high"}]}
    assert_problem(call(service, "POST", "/select/batch", body), 422, "items.1.context")
    assert content_of(raw) == before


def test_a_batch_may_want_so_many_arms_that_it_can_be_answered(
    service: Service, raw: "redis.Redis"
) -> None:
    """2,000 in all; one more is refused at once, and told what to do."""
    tenant = create(service, arms=60)
    items = [{"context": number / 40, "n": 50} for number in range(40)]
    found = selects(service, tenant, *items)
    assert [len(one["ranking"]) for one in found] == [50] * 40
    before = content_of(raw)
    body = {"tenant": tenant, "items": [*items, {"context": 0.5}]}
    answer = call(service, "POST", "/select/batch", body)
    assert_problem(answer, 422, "items: ", "2,000 arms in all, not 2,001", "in parts")
    assert content_of(raw) == before


def test_a_batch_is_one_round_trip(service: Service, raw: "redis.Redis") -> None:
    """The server sees one read of the socket for many items, not one for each."""
    tenant = create(service)
    selects(service, tenant, {"context": 0.5})
    before = raw.info("stats")["total_reads_processed"]
    selects(service, tenant, *({"context": 0.5} for _ in range(100)))
    after = raw.info("stats")["total_reads_processed"]
    assert after - before < 20
