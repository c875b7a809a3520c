"""Calls to a running service, and what every refusal must look like."""

import json
from typing import Any, NoReturn

import httpx
import redis

from service.store.keys import CLOSER
from tests.support.content import value_of
from tests.support.engine import new_name
from tests.support.servers import Service

ADMIN_KEY = "adm_4f9c1e7a20b85d63"
MAX_BODY_BYTES = 4096
CONFIG: dict[str, Any] = {"arms": 3, "preset": "simulation", "horizon": 1000, "noise": 0.1}
# One arm needs no samples: two active balls from the start, whose counters show each reward.
ONE_ARM = CONFIG | {"arms": 1}


def bearer(key: str | None) -> dict[str, str]:
    """The header that carries the key."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def call(
    service: Service, method: str, path: str, body: Any = None, *, key: str | None = None
) -> httpx.Response:
    """One call; a body that is not `None` is sent as JSON."""
    return service.client.request(method, path, json=body, headers=bearer(key))


def send(service: Service, method: str, path: str, content: str | bytes) -> httpx.Response:
    """Sends the very text as JSON, also what no JSON library would write."""
    headers = {"Content-Type": "application/json"}
    return service.client.request(method, path, content=content, headers=headers)


def create(
    service: Service, name: str | None = None, *, key: str | None = None, **config: Any
) -> str:
    """A new tenant; its name."""
    name = name or new_name()
    answer = call(service, "PUT", f"/tenants/{name}", CONFIG | config, key=key)
    assert answer.status_code == 201, answer.text
    return name


def select(service: Service, tenant: str, context: float = 0.5, **more: Any) -> httpx.Response:
    """The answer to a select."""
    return call(service, "POST", "/select", {"tenant": tenant, "context": context, **more})


def decide(service: Service, tenant: str, context: float = 0.5) -> str:
    """The id of a new decision."""
    answer = select(service, tenant, context)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["decision_id"])


def reward(service: Service, tenant: str, decision_id: str, value: float = 1.0) -> httpx.Response:
    """The answer to a reward."""
    body = {"tenant": tenant, "decision_id": decision_id, "reward": value}
    return call(service, "POST", "/reward", body)


def look(service: Service, tenant: str, decision_id: str) -> httpx.Response:
    """The answer to a look at a decision."""
    return call(service, "GET", f"/decisions/{tenant}/{decision_id}")


def censor(service: Service, tenant: str, decision_id: str) -> httpx.Response:
    """The answer to a censoring."""
    return call(service, "POST", f"/decisions/{tenant}/{decision_id}/censor")


def state_of(service: Service, tenant: str, decision_id: str) -> str:
    """What has become of a decision."""
    answer = look(service, tenant, decision_id)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


def log_of(service: Service, tenant: str, after: str = "") -> list[dict[str, Any]]:
    """The events of the decision log."""
    answer = call(service, "GET", f"/tenants/{tenant}/log?after={after}")
    assert answer.status_code == 200, answer.text
    return [strict_json(line) for line in answer.text.splitlines()]


def assert_problem(answer: httpx.Response, status: int, *names: str) -> None:
    """The answer is a problem of this status that names these fields."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = strict_json(answer.text)
    assert problem["status"] == status
    assert problem["title"]
    for name in names:
        assert name in problem["detail"], problem


def strict_json(text: str) -> Any:
    """The value, if the text is JSON by the standard: no NaN, no Infinity."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON: {text}")

    return json.loads(text, parse_constant=refuse)


def content_of(store: "redis.Redis") -> dict[bytes, Any]:
    """Everything there is in the store, but who closes decisions now."""
    found = (key for key in store.scan_iter(count=1000) if key != CLOSER.encode())
    return {key: value_of(store, key) for key in found}


def balls_of(service: Service, tenant: str) -> list[dict[str, Any]]:
    """The partition's balls."""
    answer = call(service, "GET", f"/tenants/{tenant}/partition")
    assert answer.status_code == 200, answer.text
    assert answer.json()["tenant"] == tenant
    balls: list[dict[str, Any]] = answer.json()["balls"]
    return balls
