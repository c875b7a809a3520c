"""The decision log: every event, in order, page by page, of bounded length."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from tests.api.calls import call, censor, create, decide, log_of, reward, select, state_of
from tests.support.servers import Service, wait_for

LOGGED: dict[str, Any] = {"log_entries": 10_000}
OF_ARM = {"id", "event", "at", "arm"}
OF_DECISION = OF_ARM | {
    *("decision_id", "context", "mapped_context", "ball", "phase", "propensity", "holdout"),
    "reward",
}


def arms_path(tenant: str, arm: str) -> str:
    """Where an arm is changed."""
    return f"/tenants/{tenant}/arms/{arm}"


def test_no_log_unless_it_is_wanted(service: Service) -> None:
    tenant = create(service)
    reward(service, tenant, decide(service, tenant))
    answer = call(service, "GET", f"/tenants/{tenant}/log")
    assert (answer.status_code, answer.text) == (200, "")
    assert answer.headers["content-type"] == "application/x-ndjson"


@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_every_event_in_the_order_in_which_it_happened(service: Service, preset: str) -> None:
    scale = {"kind": "linear", "low": 0, "high": 10, "outside": "clamp"}
    tenant = create(service, preset=preset, arms=["a", "b"], context_scale=scale, **LOGGED)
    first = select(service, tenant, 2.5, decision_id="first").json()
    second = select(service, tenant, 7.5, decision_id="second").json()
    reward(service, tenant, "second", 0.25)
    censor(service, tenant, "first")
    assert call(service, "PUT", arms_path(tenant, "c")).status_code == 201
    for paused in (True, False):
        call(service, "PATCH", arms_path(tenant, "c"), {"paused": paused})
    assert call(service, "DELETE", arms_path(tenant, "c")).status_code == 204
    ranking = select(service, tenant, 5, decision_id="both", n=2).json()["ranking"]
    events = log_of(service, tenant)
    told = [(event["event"], event.get("decision_id", event["arm"])) for event in events]
    assert told == [
        ("selected", "first"),
        ("selected", "second"),
        ("rewarded", "second"),
        ("censored", "first"),
        ("arm_added", "c"),
        ("arm_paused", "c"),
        ("arm_resumed", "c"),
        ("arm_retired", "c"),
        ("selected", "both"),
        ("selected", "both.2"),
    ]
    for event in events:
        assert event.keys() == (OF_ARM if event["event"].startswith("arm") else OF_DECISION)
        assert datetime.fromisoformat(event["at"]).utcoffset() is not None
    ids = [tuple(map(int, event["id"].split("-"))) for event in events]
    assert ids == sorted(set(ids))
    shared = ["decision_id", "arm", "ball", "phase", "propensity", "context", "mapped_context"]
    for place, selection in ((0, first), (1, second), (8, ranking[0]), (9, ranking[1])):
        assert {name: events[place][name] for name in shared} == {
            name: selection[name] for name in shared
        }
        assert (events[place]["reward"], events[place]["holdout"]) == (None, False)
    assert (events[0]["context"], events[0]["mapped_context"]) == (2.5, 0.25)
    assert (events[2]["reward"], events[3]["reward"]) == (0.25, None)
    for closed, selected in ((2, 1), (3, 0)):
        same = OF_DECISION - {"id", "event", "at", "reward"}
        assert {name: events[closed][name] for name in same} == {
            name: events[selected][name] for name in same
        }


@pytest.mark.parametrize("default, event", [(None, "expired"), (0.125, "defaulted")])
def test_what_the_end_of_the_window_did(
    service: Service, default: float | None, event: str
) -> None:
    tenant = create(service, default_reward=default, reward_window_seconds=0.1, **LOGGED)
    decision_id = decide(service, tenant)
    wait_for(lambda: state_of(service, tenant, decision_id) == event)
    _, closed = log_of(service, tenant)
    assert (closed["event"], closed["decision_id"]) == (event, decision_id)
    assert closed["reward"] == default


def test_what_changed_nothing_is_not_told(service: Service) -> None:
    """Repeats and refusals."""
    tenant = create(service, arms=["a", "b"], **LOGGED)
    for _ in range(2):
        select(service, tenant, decision_id="mine")
        reward(service, tenant, "mine", 0.5)
        reward(service, tenant, "mine", 0.75)
        censor(service, tenant, "mine")
        call(service, "PUT", arms_path(tenant, "a"))
        call(service, "PATCH", arms_path(tenant, "b"), {"paused": True})
        select(service, tenant, eligible=["b"])
        select(service, tenant, 2.0)
    events = [event["event"] for event in log_of(service, tenant)]
    assert events == ["selected", "rewarded", "arm_paused"]


def test_propensities_and_the_holdout(service: Service) -> None:
    """Of the arm, whatever led to it: half of the holdout's share and of the floor's, or more."""
    tenant = create(
        service, preset="adaptive", arms=2, exploration_floor=0.5, holdout=0.5, **LOGGED
    )
    for _ in range(60):
        select(service, tenant)
    events = log_of(service, tenant)
    assert {event["propensity"] for event in events} == {0.375, 0.625}
    assert {event["holdout"] for event in events} == {False, True}


def test_page_by_page(service: Service) -> None:
    """More than one page of the store's; from any line on; none after the last."""
    tenant = create(service, **LOGGED)
    items = [{"context": 0.5, "decision_id": f"d{number}"} for number in range(650)]
    for start in (0, 600):
        body = {"tenant": tenant, "items": items[start : start + 600]}
        assert call(service, "POST", "/select/batch", body).status_code == 200
    events = log_of(service, tenant)
    assert [event["decision_id"] for event in events] == [item["decision_id"] for item in items]
    for place in (0, 1, 499, 500, 648, 649):
        assert log_of(service, tenant, after=events[place]["id"]) == events[place + 1 :]
    assert log_of(service, tenant, after="0-0") == events
    assert call(service, "GET", f"/tenants/{tenant}/log?after=yesterday").status_code == 422


def test_its_length_is_bounded_about_and_follows_a_change(service: Service) -> None:
    tenant = create(service, log_entries=300)

    def play(first: int) -> None:
        items = [{"context": 0.5, "decision_id": f"d{first + n}"} for n in range(600)]
        call(service, "POST", "/select/batch", {"tenant": tenant, "items": items})

    play(0)
    events = log_of(service, tenant)
    assert 300 <= len(events) <= 450
    assert events[-1]["decision_id"] == "d599"
    call(service, "PATCH", f"/tenants/{tenant}", {"log_entries": 100})
    play(600)
    assert 100 <= len(log_of(service, tenant)) <= 250
    call(service, "PATCH", f"/tenants/{tenant}", {"log_entries": 0})
    assert log_of(service, tenant) == []
    play(1200)
    assert log_of(service, tenant) == []
    call(service, "PATCH", f"/tenants/{tenant}", {"log_entries": 100})
    decision_id = decide(service, tenant)
    assert [event["decision_id"] for event in log_of(service, tenant)] == [decision_id]


def test_it_is_read_while_arms_are_added(service: Service, twin: Service) -> None:
    """Each reading is the beginning of the next, and names every arm."""
    tenant = create(service, preset="adaptive", **LOGGED)
    arms = [f"arm {number}" for number in range(120)]

    def add() -> None:
        for arm in arms:
            assert call(twin, "PUT", arms_path(tenant, arm)).status_code == 201

    readings = []
    with ThreadPoolExecutor(1) as threads:
        adding = threads.submit(add)
        while not adding.done():
            readings.append([event["arm"] for event in log_of(service, tenant)])
        adding.result()
    assert all(reading == arms[: len(reading)] for reading in readings)
    assert [event["arm"] for event in log_of(service, tenant)] == arms
