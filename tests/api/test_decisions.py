"""`GET /decisions` in every state and for every reason, and what a censoring does and refuses."""

import time
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.api.calls import (
    assert_problem,
    balls_of,
    call,
    censor,
    create,
    decide,
    look,
    reward,
    select,
    state_of,
)
from tests.support.engine import new_name
from tests.support.servers import Service, wait_for

PRESETS = ["adaptive", "simulation"]
PHASES = ["active", "flagged"]
SHORT: dict[str, Any] = {"reward_window_seconds": 0.2, "retention_seconds": 60}
FIELDS = {
    *("tenant", "decision_id", "state", "context", "mapped_context", "arm", "phase", "propensity"),
    *("holdout", "issued_at", "expires_at", "closed_at", "reward", "ball_id", "ball", "why"),
}


def tenant_of(service: Service, preset: str, **config: Any) -> str:
    """A new tenant of two arms, whose root is soon split."""
    return create(service, preset=preset, arms=["red", "blue"], **{"neighbours": None, **config})


def paper(service: Service, **config: Any) -> str:
    """A new tenant of the paper's: two rewards split its root, and then each arm is a ball."""
    return tenant_of(service, "simulation", neighbours=1, cluster_ratio=1e-9, **config)


def tenant_in(service: Service, preset: str, phase: str, **config: Any) -> str:
    """A new tenant whose next selects are answered from balls of this phase."""
    if preset == "simulation":
        tenant = paper(service, **config)
    else:
        tenant = tenant_of(service, preset, **config)
    if phase == "active":
        low, high = config.get("reward_range", (0, 1))
        for value in (0.3, 0.6):
            reward(service, tenant, decide(service, tenant), low + value * (high - low))
    return tenant


def read(service: Service, tenant: str, decision_id: str) -> dict[str, Any]:
    """The decision."""
    answer = look(service, tenant, decision_id)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found.keys() == FIELDS
    return found


def is_closed(service: Service, tenant: str, decision_id: str) -> bool:
    """Whether the decision is no longer open."""
    return state_of(service, tenant, decision_id) != "open"


def at(text: str) -> datetime:
    """A moment that an answer tells."""
    told = datetime.fromisoformat(text)
    assert told.utcoffset() == timedelta(0)
    return told


def ball_of(service: Service, tenant: str, ball: int) -> dict[str, Any]:
    """A ball of the partition."""
    (found,) = (one for one in balls_of(service, tenant) if one["id"] == ball)
    return found


# -- the states


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("preset", PRESETS)
def test_open_then_rewarded(service: Service, twin: Service, preset: str, phase: str) -> None:
    tenant = tenant_in(service, preset, phase)
    selection = select(service, tenant, 0.25).json()
    decision_id = selection["decision_id"]
    found = read(twin, tenant, decision_id)
    assert found["phase"] == phase
    for field in ("decision_id", "arm", "phase", "propensity", "context", "mapped_context"):
        assert found[field] == selection[field], field
    assert found["ball_id"] == selection["ball"]
    assert found["expires_at"] == selection["expires_at"]
    assert at(found["expires_at"]) - at(found["issued_at"]) == timedelta(seconds=3600)
    assert abs(at(found["issued_at"]).timestamp() - time.time()) < 10
    assert (found["state"], found["tenant"], found["holdout"]) == ("open", tenant, False)
    assert (found["reward"], found["closed_at"]) == (None, None)
    assert found["ball"]["interval"][0] <= 0.25 <= found["ball"]["interval"][1]
    assert found["arm"] in found["ball"]["arms"]

    reward(service, tenant, decision_id, 0.125)
    closed = read(twin, tenant, decision_id)
    assert (closed["state"], closed["reward"]) == ("rewarded", 0.125)
    assert at(found["issued_at"]) <= at(closed["closed_at"]) <= at(found["expires_at"])
    changed = {"state", "reward", "closed_at", "ball"}
    assert {name: closed[name] for name in FIELDS - changed} == {
        name: found[name] for name in FIELDS - changed
    }
    reward(service, tenant, decision_id, 0.75)
    assert read(service, tenant, decision_id) == closed


def settle(service: Service, tenant: str) -> int:
    """Censors decisions until one changes nothing any more; how many it took."""
    for taken in range(1, 21):
        before = balls_of(service, tenant)
        censor(service, tenant, decide(service, tenant))
        if balls_of(service, tenant) == before:
            return taken
    raise AssertionError("the model never comes to rest")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("preset", PRESETS)
def test_censored(service: Service, twin: Service, preset: str, phase: str) -> None:
    """Nothing is learned: neither by the censoring nor by what is sent after it."""
    tenant = tenant_in(service, preset, phase)
    before = balls_of(service, tenant)
    censored = 1
    if preset == "adaptive" and phase == "active":
        # After two rewards the model still moves, and curves wait to be scored as it is now, which
        # the end of a decision does for the arm that was played.
        censored += settle(service, tenant)
        before = balls_of(service, tenant)
    decision_id = decide(service, tenant)
    playing = balls_of(service, tenant)
    assert censor(twin, tenant, decision_id).json() == {"status": "censored"}
    found = read(service, tenant, decision_id)
    assert (found["state"], found["reward"]) == ("censored", None)
    assert at(found["issued_at"]) <= at(found["closed_at"]) <= at(found["expires_at"])
    after = balls_of(service, tenant)
    for one, other in zip(playing, after, strict=True):
        assert one | {"ucb": 0} == other | {"ucb": 0}
    if preset == "adaptive" and phase == "active":
        # The play in flight had lowered the bound; now it is as if there had been none.
        assert sum(ball["ucb"] for ball in playing) < sum(ball["ucb"] for ball in before)
        for one, other in zip(before, after, strict=True):
            assert other["ucb"] == pytest.approx(one["ucb"], abs=1e-4)
    elif preset == "simulation":
        assert after == playing

    for again in (service, twin):
        assert censor(again, tenant, decision_id).json() == {"status": "censored"}
        assert_problem(reward(again, tenant, decision_id), 409, "censored")
    assert read(service, tenant, decision_id) == found
    assert balls_of(service, tenant) == after
    counters = service.counters(tenant)
    assert counters["decisions_censored"] == censored
    assert counters["rewards_applied"] == (0 if phase == "flagged" else 2)


@pytest.mark.parametrize("preset", PRESETS)
def test_expired_and_defaulted(service: Service, preset: str) -> None:
    """At the end of the window, by what `default_reward` is; then neither reward nor censor."""
    for default, state in ((None, "expired"), (0.25, "defaulted")):
        tenant = tenant_of(service, preset, default_reward=default, **SHORT)
        first = select(service, tenant, decision_id="mine").json()
        ids = [first["decision_id"], decide(service, tenant)]
        assert state_of(service, tenant, "mine") == "open"
        for decision_id in ids:
            wait_for(partial(is_closed, service, tenant, decision_id))
            found = read(service, tenant, decision_id)
            assert (found["state"], found["reward"]) == (state, default)
            assert at(found["closed_at"]) > at(found["expires_at"])
            assert at(found["closed_at"]) - at(found["expires_at"]) < timedelta(seconds=10)
            assert_problem(reward(service, tenant, decision_id, 0.25), 410, "0.2 seconds")
            refused = censor(service, tenant, decision_id)
            if default is None:
                assert_problem(refused, 410, "window")
            else:
                assert_problem(refused, 409, "stands")
            assert read(service, tenant, decision_id) == found
        assert select(service, tenant, decision_id="mine").json() == first
        counters = service.counters(tenant)
        assert counters["rewards_defaulted"] == (0 if default is None else 2)
        assert counters["rewards_applied"] == 0
        assert counters["rewards_late"] == 2


# -- who is told nothing


def test_unknown_foreign_and_forgotten_ones_are_all_alike(service: Service) -> None:
    tenant = create(service, reward_window_seconds=0.1, retention_seconds=0.1)
    other = create(service)
    foreign = [decide(service, other), select(service, other, decision_id="theirs").json()]
    mine = select(service, tenant, decision_id="mine").json()
    forgotten = [mine["decision_id"], decide(service, tenant)]
    wait_for(lambda: look(service, tenant, forgotten[1]).status_code == 404)
    ids = ["never", "A" * 20, "no id!", foreign[0], foreign[1]["decision_id"], *forgotten]
    for answers in (
        [look(service, tenant, decision_id) for decision_id in ids],
        [censor(service, tenant, decision_id) for decision_id in ids],
    ):
        assert {(answer.status_code, answer.content) for answer in answers} == {
            (404, answers[0].content)
        }
        assert_problem(answers[0], 404)
    assert_problem(look(service, new_name(), foreign[0]), 404)
    assert_problem(censor(service, new_name(), foreign[0]), 404)
    assert state_of(service, other, foreign[0]) == "open"
    # The audit would miss decisions that are forgotten.
    call(service, "DELETE", f"/tenants/{tenant}")


def test_a_rewarded_decision_is_not_censored(service: Service) -> None:
    tenant = create(service)
    decision_id = decide(service, tenant)
    reward(service, tenant, decision_id, 0.5)
    before = balls_of(service, tenant)
    assert_problem(censor(service, tenant, decision_id), 409, "stands")
    assert (state_of(service, tenant, decision_id), balls_of(service, tenant)) == (
        "rewarded",
        before,
    )


def test_a_decision_whose_window_is_over_is_not_censored_though_it_is_not_closed_yet(
    service: Service,
) -> None:
    tenant = create(service, reward_window_seconds=1e-3, default_reward=0.5)
    decision_id = decide(service, tenant)
    wait_for(lambda: censor(service, tenant, decision_id).status_code in (409, 410))
    wait_for(lambda: state_of(service, tenant, decision_id) == "defaulted")
    assert censor(service, tenant, decision_id).status_code in (409, 410)
    assert state_of(service, tenant, decision_id) == "defaulted"


# -- why


@pytest.mark.parametrize("preset", PRESETS)
def test_why_a_flagged_ball_was_played(service: Service, preset: str) -> None:
    tenant = tenant_of(service, preset)
    why = read(service, tenant, decide(service, tenant))["why"]
    assert why == {"rule": "flagged", "ucb": None, "runner_up": None}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("scale", [(0.0, 1.0), (-10.0, 30.0)])
def test_why_a_ball_was_played_by_its_ucb(
    service: Service, preset: str, scale: tuple[float, float]
) -> None:
    """The UCB that it had, and that of the second, on the tenant's own scale."""
    tenant = tenant_in(service, preset, "active", reward_range=scale)
    if preset == "simulation":
        for _ in range(2):
            reward(service, tenant, decide(service, tenant, 0.3), 0.5)
    best, second = sorted(
        (
            ball
            for ball in balls_of(service, tenant)
            if ball["interval"][0] <= 0.3 < ball["interval"][1]
        ),
        key=lambda ball: -float(ball["ucb"]),
    )
    decision_id = decide(service, tenant, 0.3)
    found = read(service, tenant, decision_id)
    assert [found["arm"]] == best["arms"]
    why = found["why"]
    assert why["rule"] == "ucb"
    assert why["ucb"] == pytest.approx(best["ucb"], rel=1e-5)
    runner_up = why["runner_up"]
    assert runner_up["ucb"] == pytest.approx(second["ucb"], rel=1e-5)
    if preset == "adaptive":
        assert (runner_up["arm"], runner_up["ball"]) == (second["arms"][0], None)
    else:
        assert (runner_up["arm"], runner_up["ball"]) == (None, second["id"])
    reward(service, tenant, decision_id, 0.0)
    assert read(service, tenant, decision_id)["why"] == why, "what was known then"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("phase", PHASES)
def test_why_an_arm_was_drawn(service: Service, preset: str, phase: str) -> None:
    tenant = tenant_in(service, preset, phase)
    for rule, changes in (
        ("explored", {"exploration_floor": 1.0}),
        ("holdout", {"exploration_floor": 0.0, "holdout": 1.0}),
    ):
        call(service, "PATCH", f"/tenants/{tenant}", changes)
        found = read(service, tenant, decide(service, tenant))
        assert found["why"]["rule"] == rule
        assert (found["holdout"], found["propensity"]) == (rule == "holdout", 0.5)


# -- the ball, as it is now


@pytest.mark.parametrize("preset", PRESETS)
def test_the_ball_is_the_one_of_the_partition(service: Service, preset: str) -> None:
    tenant = tenant_in(service, preset, "active")
    decision_id = decide(service, tenant, 0.3)
    shown = read(service, tenant, decision_id)["ball"]
    assert shown == ball_of(service, tenant, shown["id"])
    for value in (0.2, 0.9):
        other = select(service, tenant, 0.3, eligible=shown["arms"]).json()
        reward(service, tenant, other["decision_id"], value)
    later = read(service, tenant, decision_id)["ball"]
    assert later == ball_of(service, tenant, later["id"])
    assert later != shown


def test_a_ball_that_was_split_is_shown_as_it_was(service: Service) -> None:
    tenant = paper(service)
    decision_id = decide(service, tenant)
    reward(service, tenant, decision_id)
    reward(service, tenant, decide(service, tenant))
    ball = read(service, tenant, decision_id)["ball"]
    assert (ball["id"], ball["phase"], ball["arms"]) == (0, "split", ["red", "blue"])
    assert 0 not in {one["id"] for one in balls_of(service, tenant)}


def test_the_ball_of_a_curve_that_was_split_is_the_one_at_the_context(service: Service) -> None:
    tenant = create(service, preset="adaptive", arms=1, noise=1e-3)
    decision_id = decide(service, tenant, 0.3)
    assert read(service, tenant, decision_id)["ball"]["depth"] == 0
    for _ in range(3):
        reward(service, tenant, decide(service, tenant, 0.3), 0.5)
    found = read(service, tenant, decision_id)
    assert found["ball_id"] == 0  # as its select was told
    ball = found["ball"]
    assert ball["depth"] > 2
    assert ball["interval"][0] <= 0.3 < ball["interval"][1]
    assert ball == ball_of(service, tenant, ball["id"])


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("phase", PHASES)
def test_the_arm_was_retired(service: Service, preset: str, phase: str) -> None:
    """The decision is still there, under the arm's old name, and can be censored."""
    tenant = tenant_in(service, preset, phase)
    found = read(service, tenant, decide(service, tenant))
    arm, decision_id = found["arm"], found["decision_id"]
    assert call(service, "DELETE", f"/tenants/{tenant}/arms/{arm}").status_code == 204
    assert call(service, "PUT", f"/tenants/{tenant}/arms/{arm}").status_code == 201
    later = read(service, tenant, decision_id)
    assert (later["arm"], later["state"]) == (arm, "open")
    if preset == "adaptive":
        assert later["ball"] is None
    else:
        assert arm not in later["ball"]["arms"]
    assert reward(service, tenant, decision_id).json() == {
        **{"status": "ignored", "ball": None, "phase": None}
    }
    assert state_of(service, tenant, decision_id) == "open"
    assert censor(service, tenant, decision_id).json() == {"status": "censored"}
    assert state_of(service, tenant, decision_id) == "censored"


def test_each_decision_of_a_ranking_lives_for_itself(service: Service) -> None:
    tenant = create(service, arms=4, preset="adaptive")
    ranking = select(service, tenant, decision_id="mine", n=3).json()["ranking"]
    ids = [choice["decision_id"] for choice in ranking]
    assert ids == ["mine", "mine.2", "mine.3"]
    reward(service, tenant, ids[1], 0.5)
    censor(service, tenant, ids[2])
    states = [read(service, tenant, decision_id) for decision_id in ids]
    assert [found["state"] for found in states] == ["open", "rewarded", "censored"]
    assert [found["arm"] for found in states] == [choice["arm"] for choice in ranking]
