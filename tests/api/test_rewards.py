"""What /reward answers, row by row, and that a repeated /select gets its first answer.

Short windows are waited out by the clock; a decision rewarded in time is tried for until it is.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
import redis

from service.decision_ids import issue_time_ms
from tests.api.calls import (
    ONE_ARM,
    assert_problem,
    balls_of,
    call,
    content_of,
    create,
    decide,
    reward,
    select,
)
from tests.support.servers import Service, wait_for

WINDOW_SECONDS = 0.3
SHORT: dict[str, Any] = {"reward_window_seconds": WINDOW_SECONDS}
SHORTEST: dict[str, Any] = {"reward_window_seconds": 0.1, "retention_seconds": 0.1}
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def wait_until(moment: float) -> None:
    """Returns once the clock has passed the moment, in seconds since 1970."""
    wait_for(lambda: time.time() > moment + 0.002, what="the moment")


def expiry_of(selection: dict[str, Any]) -> float:
    """The end of the decision's window, in seconds since 1970."""
    return datetime.fromisoformat(selection["expires_at"]).timestamp()


def rewarded_in_time(service: Service, tenant: str) -> dict[str, Any]:
    """A decision whose reward of 1.0 came within its short window, however slow the machine is."""

    def attempt() -> dict[str, Any] | None:
        selection: dict[str, Any] = select(service, tenant).json()
        applied = reward(service, tenant, selection["decision_id"]).status_code == 200
        return selection if applied else None

    rewarded: dict[str, Any] = wait_for(attempt)
    return rewarded


def counters_of(service: Service, tenant: str) -> Any:
    """The tenant's counters."""
    return call(service, "GET", f"/tenants/{tenant}").json()["counters"]


@contextmanager
def forgetful_tenant(service: Service) -> Iterator[str]:
    """A tenant that soon forgets its decisions; deleted, since the audit would miss them."""
    tenant = create(service, **SHORTEST)
    yield tenant
    assert call(service, "DELETE", f"/tenants/{tenant}").status_code == 204


# -- the table


def test_the_reward_of_an_open_decision_is_applied(service: Service) -> None:
    tenant = create(service, **ONE_ARM)
    selection = select(service, tenant, 0.7).json()
    answer = reward(service, tenant, selection["decision_id"], 0.25)
    assert answer.status_code == 200
    assert answer.json() == {"status": "applied", "ball": selection["ball"], "phase": "active"}
    credited = [ball for ball in balls_of(service, tenant) if ball["n"]]
    assert [(ball["id"], ball["n"], ball["mean"]) for ball in credited] == [
        (selection["ball"], 1, 0.25)
    ]


def test_the_same_reward_again_is_a_duplicate_and_changes_nothing(service: Service) -> None:
    tenant = create(service, **ONE_ARM)
    decision_id = decide(service, tenant)
    reward(service, tenant, decision_id, 0.25)
    before = balls_of(service, tenant)
    for _ in range(3):
        answer = reward(service, tenant, decision_id, 0.25)
        assert (answer.status_code, answer.json()["status"]) == (200, "duplicate")
    assert balls_of(service, tenant) == before
    assert counters_of(service, tenant)["rewards_applied"] == 1


def test_another_reward_is_a_conflict_and_the_first_stands(service: Service) -> None:
    tenant = create(service, **ONE_ARM)
    decision_id = decide(service, tenant)
    reward(service, tenant, decision_id, 0.1)
    before = balls_of(service, tenant)
    assert_problem(reward(service, tenant, decision_id, 0.1 + 2**-56), 409, "0.1,")
    assert balls_of(service, tenant) == before
    assert reward(service, tenant, decision_id, 0.1).json()["status"] == "duplicate"


@pytest.mark.parametrize("own_id", [None, "mine"])
def test_a_reward_after_the_window_is_late(service: Service, own_id: str | None) -> None:
    tenant = create(service, **SHORT)
    selection = select(service, tenant, decision_id=own_id).json()
    wait_until(expiry_of(selection))
    for value in (1.0, 0.0):
        answer = reward(service, tenant, selection["decision_id"], value)
        assert_problem(answer, 410, f"{WINDOW_SECONDS} seconds")
    assert counters_of(service, tenant)["rewards_applied"] == 0


def test_an_applied_reward_repeated_after_the_window_is_a_duplicate(service: Service) -> None:
    tenant = create(service, **SHORT)
    selection = rewarded_in_time(service, tenant)
    wait_until(expiry_of(selection))
    answer = reward(service, tenant, selection["decision_id"])
    assert (answer.status_code, answer.json()["status"]) == (200, "duplicate")
    assert_problem(reward(service, tenant, selection["decision_id"], 0.5), 409)


def test_after_the_retention_the_decision_is_unknown(service: Service) -> None:
    with forgetful_tenant(service) as tenant:
        rewarded = rewarded_in_time(service, tenant)
        missed = select(service, tenant).json()
        wait_until(expiry_of(missed) + SHORTEST["retention_seconds"])
        for selection in (rewarded, missed):
            assert_problem(reward(service, tenant, selection["decision_id"]), 404)


def test_unknown_malformed_and_foreign_ids_are_all_alike(service: Service) -> None:
    tenant, other = create(service), create(service)
    foreign = [decide(service, other), select(service, other, decision_id="theirs").json()]
    ids = ["never-issued", "no id at all!", "A" * 20, foreign[0], foreign[1]["decision_id"]]
    answers = [reward(service, tenant, decision_id) for decision_id in ids]
    assert {(answer.status_code, answer.content) for answer in answers} == {
        (404, answers[0].content)
    }
    assert_problem(answers[0], 404)
    assert counters_of(service, other)["rewards_applied"] == 0


def test_two_tenants_may_use_the_same_id(service: Service) -> None:
    tenant, other = create(service), create(service)
    for name, value in ((tenant, 0.0), (other, 1.0)):
        select(service, name, decision_id="shared")
        assert reward(service, name, "shared", value).json()["status"] == "applied"


# -- the repeated select


@pytest.mark.parametrize("own_id", [None, "mine", "Z" * 64, "A" * 20])
def test_a_repeated_select_gets_the_first_answer(
    service: Service, twin: Service, own_id: str | None
) -> None:
    """Byte for byte, from any service on the store, also for an id that the service made."""
    tenant = create(service)
    first = select(service, tenant, 0.1, decision_id=own_id)
    decision_id = first.json()["decision_id"]
    decide(service, tenant)
    for again in (service, twin):
        assert select(again, tenant, 0.1, decision_id=decision_id).content == first.content
    assert counters_of(service, tenant)["trials_flagged"] == 2


def test_a_repeated_select_gets_the_first_answer_after_its_ball_was_split(
    service: Service,
) -> None:
    tenant = create(service, neighbours=1)
    first = select(service, tenant, 0.1, decision_id="mine")
    assert first.json()["phase"] == "flagged"
    reward(service, tenant, "mine")
    for _ in range(2):
        reward(service, tenant, decide(service, tenant))
    assert counters_of(service, tenant)["splits"] == 1
    assert select(service, tenant, 0.1, decision_id="mine").content == first.content


@pytest.mark.parametrize("own_id", [None, "mine"])
def test_a_repeated_select_with_another_context_is_a_conflict(
    service: Service, twin: Service, own_id: str | None
) -> None:
    tenant = create(service)
    decision_id = select(service, tenant, 0.5, decision_id=own_id).json()["decision_id"]
    for again in (service, twin):
        answer = select(again, tenant, 0.5 + 2**-53, decision_id=decision_id)
        assert_problem(answer, 409, decision_id)
    assert counters_of(service, tenant)["trials_flagged"] == 1


def test_a_decision_of_one_service_is_rewarded_at_another(service: Service, twin: Service) -> None:
    tenant = create(service)
    decision_id = decide(service, tenant)
    assert reward(twin, tenant, decision_id).json()["status"] == "applied"
    assert reward(service, tenant, decision_id).json()["status"] == "duplicate"


# -- times and memory


@pytest.mark.parametrize("window", [WINDOW_SECONDS, 3600, 366 * 86_400])
def test_a_decision_expires_a_window_after_its_issue(service: Service, window: float) -> None:
    tenant = create(service, reward_window_seconds=window)
    selection = select(service, tenant).json()
    issued_ms = issue_time_ms(selection["decision_id"])
    assert issued_ms is not None
    assert abs(issued_ms / 1000 - time.time()) < 10
    assert RFC_3339.fullmatch(selection["expires_at"])
    assert round(expiry_of(selection) * 1000) == issued_ms + round(window * 1000)


def test_a_window_of_no_time_at_all_takes_no_reward_and_breaks_nothing(service: Service) -> None:
    """Both round to 0 ms."""
    tenant = create(service, reward_window_seconds=1e-9, retention_seconds=1e-9)
    for _ in range(3):
        assert reward(service, tenant, decide(service, tenant)).status_code in (200, 404, 410)
    assert service.counters(tenant)["trials_flagged"] == 3


def test_the_memory_of_decisions_is_given_back(service: Service, raw: "redis.Redis") -> None:
    with forgetful_tenant(service) as tenant:
        for number in range(20):
            reward(service, tenant, decide(service, tenant))
            select(service, tenant, decision_id=f"mine-{number}")
        passing = (b":decisions:", b":pointer:", b":slots")
        assert all(any(kind in key for key in content_of(raw)) for kind in passing)
        wait_for(
            lambda: not any(kind in key for key in content_of(raw) for kind in passing),
            what="the end of all that is forgotten",
        )
