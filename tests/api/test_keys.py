"""A tenant's keys: changed for others without a pause, expired in time, revoked at once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.calls import ADMIN_KEY, CONFIG, assert_problem, bearer, call, create
from tests.support.engine import new_name
from tests.support.servers import Service, wait_for

READS = ["/tenants/{}", "/tenants/{}/partition"]


def admin(service: Service, method: str, path: str, body: Any = None) -> httpx.Response:
    """A call with the admin's key."""
    return call(service, method, path, body, key=ADMIN_KEY)


def make(service: Service) -> tuple[str, dict[str, str]]:
    """A new tenant, and its first key."""
    name = new_name()
    answer = admin(service, "PUT", f"/tenants/{name}", CONFIG)
    assert answer.status_code == 201
    return name, answer.json()


def new_key(service: Service, tenant: str, **body: float) -> dict[str, Any]:
    """Another key."""
    answer = admin(service, "POST", f"/tenants/{tenant}/keys", body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def revoke(service: Service, tenant: str, key_id: str) -> httpx.Response:
    """The answer to a revocation."""
    return admin(service, "DELETE", f"/tenants/{tenant}/keys/{key_id}")


def uses(service: Service, tenant: str, key: str) -> set[int]:
    """The statuses of all that a tenant's key is for."""
    selection = {"tenant": tenant, "context": 0.5}
    items = {"tenant": tenant, "items": [{"context": 0.5}]}
    answers = [call(service, "GET", path.format(tenant), key=key) for path in READS]
    answers += [
        call(service, "POST", "/select", selection, key=key),
        call(service, "POST", "/select/batch", items, key=key),
    ]
    return {answer.status_code for answer in answers}


def listed(service: Service, tenant: str) -> list[dict[str, Any]]:
    """The keys that are shown to the admin."""
    keys: list[dict[str, Any]] = admin(service, "GET", f"/tenants/{tenant}").json()["keys"]
    return keys


def test_a_key_is_changed_for_another_without_a_pause(
    guarded: Service, guarded_twin: Service
) -> None:
    name, first = make(guarded)
    second = new_key(guarded, name)
    for service in (guarded, guarded_twin):
        assert uses(service, name, first["api_key"]) == {200}
        assert uses(service, name, second["api_key"]) == {200}
    assert revoke(guarded, name, first["key_id"]).status_code == 204
    for service in (guarded_twin, guarded):
        assert uses(service, name, first["api_key"]) == {403}
        assert uses(service, name, second["api_key"]) == {200}
    assert new_key(guarded_twin, name)["key_id"] not in (first["key_id"], second["key_id"])


@pytest.mark.parametrize("path", [*READS, "/select", "/reward"])
def test_a_revoked_key_fails_at_the_very_next_call_of_a_service_that_knew_it(
    guarded: Service, guarded_twin: Service, path: str
) -> None:
    """Each way in alone: none may rely on another having noticed."""
    name, first = make(guarded)
    assert uses(guarded_twin, name, first["api_key"]) == {200}
    revoke(guarded, name, first["key_id"])
    bodies: dict[str, Any] = {
        "/select": {"tenant": name, "context": 0.5},
        "/reward": {"tenant": name, "decision_id": "a", "reward": 1.0},
    }
    method = "POST" if path in bodies else "GET"
    answer = call(guarded_twin, method, path.format(name), bodies.get(path), key=first["api_key"])
    assert_problem(answer, 403)


@pytest.mark.parametrize("path", READS)
def test_the_key_of_a_tenant_that_was_deleted_elsewhere_tells_nothing(
    guarded: Service, guarded_twin: Service, path: str
) -> None:
    """The same answer as for any key that does not fit."""
    name, first = make(guarded)
    assert uses(guarded_twin, name, first["api_key"]) == {200}
    assert admin(guarded, "DELETE", f"/tenants/{name}").status_code == 204
    answers = [
        call(guarded_twin, "GET", path.format(name), key=key)
        for key in (first["api_key"], "zk_garbage")
    ]
    assert answers[0].content == answers[1].content
    assert_problem(answers[0], 403)


def test_a_third_key_is_refused_until_one_is_revoked(guarded: Service) -> None:
    name, first = make(guarded)
    second = new_key(guarded, name)
    refused = admin(guarded, "POST", f"/tenants/{name}/keys", {})
    assert_problem(refused, 409, first["key_id"], second["key_id"], "revoke")
    revoke(guarded, name, second["key_id"])
    new_key(guarded, name)
    assert uses(guarded, name, second["api_key"]) == {403}


def test_of_many_keys_asked_for_at_once_one_is_made(
    guarded: Service, guarded_twin: Service
) -> None:
    name, _ = make(guarded)

    def ask(number: int) -> int:
        one = (guarded, guarded_twin)[number % 2]
        return admin(one, "POST", f"/tenants/{name}/keys", {}).status_code

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(ask, range(8))) == [201] + [409] * 7
    assert len(listed(guarded, name)) == 2


def test_keys_are_told_as_they_are_not_as_they_are_remembered(
    guarded: Service, guarded_twin: Service
) -> None:
    """A service that remembers two keys makes another when one was revoked elsewhere."""
    name, first = make(guarded)
    second = new_key(guarded_twin, name)
    revoke(guarded, name, first["key_id"])
    third = new_key(guarded_twin, name)
    assert uses(guarded_twin, name, third["api_key"]) == {200}
    assert revoke(guarded, name, third["key_id"]).status_code == 204
    assert [key["key_id"] for key in listed(guarded_twin, name)] == [second["key_id"]]


def test_a_key_expires_by_itself_also_where_it_is_remembered(
    guarded: Service, guarded_twin: Service
) -> None:
    name, first = make(guarded)
    brief = new_key(guarded, name, expires_in_seconds=1.5)
    for service in (guarded, guarded_twin):
        assert uses(service, name, brief["api_key"]) == {200}
    expired = datetime.fromisoformat(brief["expires_at"])
    assert timedelta(0) < expired - datetime.now(UTC) < timedelta(seconds=1.5)
    wait_for(lambda: datetime.now(UTC) > expired, what="the end of the key")
    for service in (guarded, guarded_twin):
        assert uses(service, name, brief["api_key"]) == {403}
        assert uses(service, name, first["api_key"]) == {200}
        assert [key["key_id"] for key in listed(service, name)] == [first["key_id"]]


def test_an_expired_key_makes_room_for_another(guarded: Service) -> None:
    name, _ = make(guarded)
    gone = new_key(guarded, name, expires_in_seconds=0.001)
    wait_for(lambda: len(listed(guarded, name)) == 1, what="the end of the key")
    new_key(guarded, name)
    assert_problem(revoke(guarded, name, gone["key_id"]), 404, name)


def test_the_admin_sees_the_keys_and_never_what_opens(guarded: Service) -> None:
    name, first = make(guarded)
    second = new_key(guarded, name, expires_in_seconds=3600)
    keys = listed(guarded, name)
    assert [key["key_id"] for key in keys] == [first["key_id"], second["key_id"]]
    assert [key["expires_at"] for key in keys] == [None, second["expires_at"]]
    assert set(keys[0]) == {"key_id", "created_at", "expires_at"}
    seen = call(guarded, "GET", f"/tenants/{name}", key=first["api_key"]).json()
    assert seen["keys"] is None


def test_the_last_key_may_be_revoked(guarded: Service) -> None:
    name, first = make(guarded)
    assert revoke(guarded, name, first["key_id"]).status_code == 204
    assert uses(guarded, name, first["api_key"]) == {403}
    assert uses(guarded, name, ADMIN_KEY) == {200}
    assert uses(guarded, name, new_key(guarded, name)["api_key"]) == {200}


def test_a_key_is_revoked_once(guarded: Service) -> None:
    name, first = make(guarded)
    assert revoke(guarded, name, first["key_id"]).status_code == 204
    assert_problem(revoke(guarded, name, first["key_id"]), 404, name)
    assert_problem(revoke(guarded, name, "k"), 404, name)
    assert_problem(revoke(guarded, new_name(), "k"), 404)


def test_a_change_of_settings_leaves_the_keys_alone(guarded: Service) -> None:
    name, first = make(guarded)
    second = new_key(guarded, name)
    before = listed(guarded, name)
    assert admin(guarded, "PATCH", f"/tenants/{name}", {"split_wait_ms": 5}).status_code == 200
    assert listed(guarded, name) == before
    for key in (first, second):
        assert uses(guarded, name, key["api_key"]) == {200}


def test_a_key_can_be_asked_for_without_a_body(service: Service) -> None:
    name = create(service)
    answer = service.client.post(f"/tenants/{name}/keys", headers=bearer(None))
    assert answer.status_code == 201
    assert answer.json()["expires_at"] is None
