"""What of a tenant can be changed while it lives, and that everyone sees it at once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.api.change_schemas import TenantChanges
from service.api.schemas import TenantConfig
from tests.api.calls import CONFIG, assert_problem, call, create, decide, reward, select
from tests.api.values import GOOD
from tests.support.engine import new_name
from tests.support.servers import Service

STRUCTURAL = TenantConfig.model_fields.keys() - TenantChanges.model_fields.keys()


def patch(service: Service, tenant: str, changes: dict[str, Any]) -> Any:
    """The answer to a change."""
    return call(service, "PATCH", f"/tenants/{tenant}", changes)


def read(service: Service, tenant: str) -> Any:
    """The tenant's state."""
    return call(service, "GET", f"/tenants/{tenant}").json()


def test_a_change_is_seen_by_every_service_and_nothing_else_changes(
    service: Service, twin: Service
) -> None:
    name = create(service)
    reward(twin, name, decide(twin, name))
    before = read(twin, name)
    answer = patch(service, name, {"split_wait_ms": 7})
    assert answer.status_code == 200
    assert answer.json() == read(service, name) == read(twin, name)
    config = before["config"] | {"split_wait_ms": 7}
    assert answer.json() == before | {"config": config}
    assert reward(twin, name, decide(twin, name)).json()["status"] == "applied"


def test_decisions_made_before_a_change_are_rewarded_after_it(
    service: Service, twin: Service
) -> None:
    name = create(service)
    first = select(twin, name, decision_id="mine")
    patch(service, name, {"split_wait_ms": 7})
    assert select(twin, name, decision_id="mine").content == first.content
    assert reward(twin, name, "mine").json()["status"] == "applied"


def test_the_body_sent_at_the_creation_stays_known(service: Service) -> None:
    name = create(service)
    patch(service, name, {"split_wait_ms": 7})
    again = call(service, "PUT", f"/tenants/{name}", CONFIG)
    assert again.status_code == 200
    assert again.json()["config"]["split_wait_ms"] == 7
    assert call(service, "PUT", f"/tenants/{name}", CONFIG | {"arms": 4}).status_code == 409


def test_nothing_sent_changes_nothing(service: Service) -> None:
    name = create(service)
    before = read(service, name)
    assert patch(service, name, {}).json() == before


@pytest.mark.parametrize("setting", sorted(STRUCTURAL))
def test_a_structural_setting_takes_a_new_tenant(service: Service, setting: str) -> None:
    """Even with the value that it has."""
    name = create(service)
    before = read(service, name)
    value = before["config"].get(setting, CONFIG.get(setting))
    answer = patch(service, name, {"split_wait_ms": 7, setting: value})
    assert_problem(answer, 422, setting, "new tenant")
    assert read(service, name) == before


@pytest.mark.parametrize("setting", ["reward_window_seconds", "retention_seconds"])
def test_it_is_said_truly_why_a_setting_is_structural(service: Service, setting: str) -> None:
    """How long decisions are kept has no part in what is learned."""
    answer = patch(service, create(service), {setting: 60})
    assert_problem(answer, 422, setting, "decisions", "new tenant")
    assert "learned" not in answer.json()["detail"]


def test_arms_are_changed_elsewhere(service: Service) -> None:
    assert_problem(patch(service, create(service), {"arms": 3}), 422, "/arms")


def test_whatever_may_be_given_at_the_creation_may_be_given_later(service: Service) -> None:
    name = create(service)
    for setting in TenantChanges.model_fields:
        for text in GOOD[setting]:
            answer = service.client.patch(
                f"/tenants/{name}",
                content=f'{{"{setting}": {text}}}',
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code == 200, (setting, text, answer.text)


def test_changes_at_the_same_time_are_all_made(service: Service, twin: Service) -> None:
    name = create(service)

    def change(number: int) -> int:
        one = (service, twin)[number % 2]
        return int(patch(one, name, {"split_wait_ms": number}).status_code)

    with ThreadPoolExecutor(6) as threads:
        for start in range(0, 60, 6):
            assert set(threads.map(change, range(start, start + 6))) == {200}
            assert read(service, name) == read(twin, name)


def test_a_tenant_that_is_not_there_cannot_be_changed(service: Service, twin: Service) -> None:
    """Also when this service still remembers it."""
    assert_problem(patch(service, new_name(), {"split_wait_ms": 7}), 404)
    name = create(service)
    decide(twin, name)
    assert call(service, "DELETE", f"/tenants/{name}").status_code == 204
    assert_problem(patch(twin, name, {"split_wait_ms": 7}), 404, name)
    assert call(service, "GET", "/tenants").json() == {"tenants": []}
