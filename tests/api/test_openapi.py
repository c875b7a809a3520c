"""The OpenAPI texts say what is so: every route, every status that it can answer with, no other."""

import importlib
import pkgutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import service.api
from service.api.schemas import MOST_ARMS
from tests.api.calls import (
    ADMIN_KEY,
    CONFIG,
    MAX_BODY_BYTES,
    assert_problem,
    call,
    create,
    strict_json,
)
from tests.support.servers import Service, wait_for

PUT, READ, PATCH, DELETE = (
    f"{method} /tenants/{{tenant}}" for method in ("PUT", "GET", "PATCH", "DELETE")
)
NEW_KEY, REVOKE = "POST /tenants/{tenant}/keys", "DELETE /tenants/{tenant}/keys/{key_id}"
EXPORT, IMPORT = "GET /tenants/{tenant}/export", "POST /tenants/{tenant}/import"
LIST, PARTITION = "GET /tenants", "GET /tenants/{tenant}/partition"
LOG, ARMS = "GET /tenants/{tenant}/log", "GET /tenants/{tenant}/arms"
ADD, CHANGE, RETIRE = (
    f"{method} /tenants/{{tenant}}/arms/{{arm}}" for method in ("PUT", "PATCH", "DELETE")
)
LOOK = "GET /decisions/{tenant}/{decision_id}"
CENSOR = "POST /decisions/{tenant}/{decision_id}/censor"
SELECT, REWARD = "POST /select", "POST /reward"
SELECTS, REWARDS = "POST /select/batch", "POST /reward/batch"

SELECT_BODY = {"tenant": "shop", "context": 0.5}
REWARD_BODY = {"tenant": "shop", "decision_id": "mine", "reward": 1.0}
SELECTS_BODY = {"tenant": "shop", "items": [{"context": 0.5}]}
REWARDS_BODY = {"tenant": "shop", "items": [{"decision_id": "mine", "reward": 1.0}]}
TOO_LARGE = {"tenant": "x" * MAX_BODY_BYTES}
# Route, status, and the path and body that provoke it with the admin's key.
PROVOCATIONS: list[tuple[str, int, str, Any]] = [
    (PUT, 409, "/tenants/shop", CONFIG | {"arms": 4}),
    (PUT, 413, "/tenants/shop", TOO_LARGE),
    (PUT, 422, "/tenants/shop", {}),
    (READ, 404, "/tenants/nobody", None),
    (READ, 422, "/tenants/Nobody", None),
    (PATCH, 404, "/tenants/nobody", {}),
    (PATCH, 413, "/tenants/shop", TOO_LARGE),
    (PATCH, 422, "/tenants/shop", {"arms": 4}),
    (DELETE, 404, "/tenants/nobody", None),
    (DELETE, 422, "/tenants/Nobody", None),
    (NEW_KEY, 404, "/tenants/nobody/keys", {}),
    (NEW_KEY, 409, "/tenants/full/keys", {}),
    (NEW_KEY, 413, "/tenants/shop/keys", TOO_LARGE),
    (NEW_KEY, 422, "/tenants/shop/keys", {"expires_in_seconds": 0}),
    (REVOKE, 404, "/tenants/shop/keys/unknown", None),
    (REVOKE, 422, "/tenants/shop/keys/a%20b", None),
    (EXPORT, 404, "/tenants/nobody/export", None),
    (EXPORT, 422, "/tenants/Nobody/export", None),
    (IMPORT, 409, "/tenants/shop/import", {}),
    (IMPORT, 422, "/tenants/copy/import", {}),
    (PARTITION, 404, "/tenants/nobody/partition", None),
    (PARTITION, 422, "/tenants/Nobody/partition", None),
    (LOG, 404, "/tenants/nobody/log", None),
    (LOG, 422, "/tenants/shop/log?after=now", None),
    (ARMS, 404, "/tenants/nobody/arms", None),
    (ARMS, 422, "/tenants/Nobody/arms", None),
    (ADD, 404, "/tenants/nobody/arms/a", None),
    (ADD, 409, "/tenants/crowded/arms/one%20more", None),
    (ADD, 422, f"/tenants/shop/arms/{'a' * 129}", None),
    (CHANGE, 404, "/tenants/shop/arms/nobody", {"paused": True}),
    (CHANGE, 413, "/tenants/shop/arms/1", TOO_LARGE),
    (CHANGE, 422, "/tenants/shop/arms/1", {}),
    (RETIRE, 404, "/tenants/shop/arms/nobody", None),
    (RETIRE, 422, f"/tenants/shop/arms/{'a' * 129}", None),
    (LOOK, 404, "/decisions/shop/nothing", None),
    (LOOK, 422, "/decisions/Shop/mine", None),
    (CENSOR, 404, "/decisions/shop/nothing/censor", None),
    (CENSOR, 409, "/decisions/shop/mine/censor", None),
    (CENSOR, 410, "/decisions/hasty/mine/censor", None),
    (CENSOR, 422, "/decisions/Shop/mine/censor", None),
    (SELECT, 404, "/select", SELECT_BODY | {"tenant": "nobody"}),
    (SELECT, 409, "/select", {"tenant": "shop", "context": 0.6, "decision_id": "mine"}),
    (SELECT, 413, "/select", TOO_LARGE),
    (SELECT, 422, "/select", {}),
    (REWARD, 404, "/reward", REWARD_BODY | {"tenant": "nobody"}),
    (REWARD, 409, "/reward", REWARD_BODY | {"reward": 0.0}),
    (REWARD, 410, "/reward", {"tenant": "hasty", "decision_id": "mine", "reward": 1.0}),
    (REWARD, 413, "/reward", TOO_LARGE),
    (REWARD, 422, "/reward", {}),
    (SELECTS, 404, "/select/batch", SELECTS_BODY | {"tenant": "nobody"}),
    (SELECTS, 413, "/select/batch", TOO_LARGE),
    (SELECTS, 422, "/select/batch", {}),
    (REWARDS, 404, "/reward/batch", REWARDS_BODY | {"tenant": "nobody"}),
    (REWARDS, 413, "/reward/batch", TOO_LARGE),
    (REWARDS, 422, "/reward/batch", {}),
]
GOOD_CALLS: dict[str, tuple[str, Any]] = {
    PUT: ("/tenants/shop", CONFIG),
    READ: ("/tenants/shop", None),
    PATCH: ("/tenants/shop", {"split_wait_ms": 5}),
    LIST: ("/tenants", None),
    NEW_KEY: ("/tenants/shop/keys", {}),
    REVOKE: ("/tenants/shop/keys/k1", None),
    EXPORT: ("/tenants/shop/export", None),
    IMPORT: ("/tenants/copy/import", {}),
    PARTITION: ("/tenants/shop/partition", None),
    LOG: ("/tenants/shop/log", None),
    ARMS: ("/tenants/shop/arms", None),
    ADD: ("/tenants/shop/arms/new", None),
    CHANGE: ("/tenants/shop/arms/1", {"paused": True}),
    RETIRE: ("/tenants/shop/arms/1", None),
    LOOK: ("/decisions/shop/mine", None),
    CENSOR: ("/decisions/shop/mine/censor", None),
    SELECT: ("/select", SELECT_BODY),
    REWARD: ("/reward", REWARD_BODY),
    SELECTS: ("/select/batch", SELECTS_BODY),
    REWARDS: ("/reward/batch", REWARDS_BODY),
    DELETE: ("/tenants/shop", None),
}
OPEN_ROUTES = {"GET /health/live", "GET /health/ready", "GET /metrics"}


def operations(running: Service) -> dict[str, Any]:
    """What is said of each route."""
    paths = strict_json(call(running, "GET", "/openapi.json").text)["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def refusals(operation: dict[str, Any]) -> set[int]:
    """The error statuses that are declared."""
    return {int(status) for status in operation["responses"] if int(status) >= 400}


def routes_there_are() -> set[str]:
    """All routes of all routers of the package `service.api`."""
    found = set()
    for module in pkgutil.iter_modules(service.api.__path__):
        router = getattr(importlib.import_module(f"service.api.{module.name}"), "router", None)
        for route in router.routes if router else ():
            found |= {f"{method} {route.path_format}" for method in route.methods}
    return found


def set_the_stage(running: Service) -> None:
    """What the provocations need: a rewarded decision, one too late, a tenant with two keys."""
    create(running, "shop", key=ADMIN_KEY)
    create(running, "full", key=ADMIN_KEY)
    assert call(running, "POST", "/tenants/full/keys", key=ADMIN_KEY).status_code == 201
    create(running, "hasty", key=ADMIN_KEY, reward_window_seconds=0.001)
    create(running, "crowded", key=ADMIN_KEY, arms=MOST_ARMS, similarity={"kind": "none"}, grid=1)
    for tenant in ("shop", "hasty"):
        body = {"tenant": tenant, "context": 0.5, "decision_id": "mine"}
        assert call(running, "POST", "/select", body, key=ADMIN_KEY).status_code == 200
    assert call(running, "POST", "/reward", REWARD_BODY, key=ADMIN_KEY).status_code == 200
    decided = time.monotonic()
    wait_for(lambda: time.monotonic() > decided + 0.01, what="the end of the short window")


def test_the_docs_are_served(service: Service) -> None:
    answer = call(service, "GET", "/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "/openapi.json" in answer.text


def test_exactly_the_routes_there_are_are_listed(service: Service) -> None:
    assert set(operations(service)) == routes_there_are()


def test_every_route_is_described(service: Service) -> None:
    for route, operation in operations(service).items():
        assert operation["description"], route


def test_errors_are_declared_as_problems(service: Service) -> None:
    for route, operation in operations(service).items():
        for status in refusals(operation):
            content = operation["responses"][str(status)]["content"]
            assert list(content) == ["application/problem+json"], (route, status)


def test_the_provocations_do_provoke(guarded: Service) -> None:
    set_the_stage(guarded)
    for route, status, path, body in PROVOCATIONS:
        assert_problem(call(guarded, route.split()[0], path, body, key=ADMIN_KEY), status)
    for route, (path, body) in GOOD_CALLS.items():
        for status, key in ((401, None), (403, "zk_garbage")):
            assert_problem(call(guarded, route.split()[0], path, body, key=key), status)
    # So many arms would take long to audit; tests/race/test_cost.py has as many.
    assert call(guarded, "DELETE", "/tenants/crowded", key=ADMIN_KEY).status_code == 204


def test_a_service_without_its_store_answers_503_in_time(storeless: Service) -> None:
    """Nothing but the probe of the process itself works without the store."""
    routes = [(route.split()[0], path, body) for route, (path, body) in GOOD_CALLS.items()]
    routes.append(("GET", "/health/ready", None))
    with ThreadPoolExecutor(len(routes)) as threads:
        answers = list(threads.map(lambda route: call(storeless, *route, key=ADMIN_KEY), routes))
    for answer in answers:
        assert_problem(answer, 503, "again")
        assert answer.headers["retry-after"] == "1"
        assert answer.elapsed.total_seconds() < 10
    assert call(storeless, "GET", "/health/live").status_code == 200


def test_the_statuses_declared_are_those_that_can_be(service: Service) -> None:
    """Those provoked above: with the admin's key, with none and a wrong one, without a store."""
    declared = operations(service)
    for route in GOOD_CALLS:
        provoked = {status for where, status, *_ in PROVOCATIONS if where == route}
        assert refusals(declared[route]) == provoked | {401, 403, 503}, route
    assert set(declared) == set(GOOD_CALLS) | OPEN_ROUTES
    assert refusals(declared["GET /health/live"]) == set()
    assert refusals(declared["GET /health/ready"]) == {503}
    assert refusals(declared["GET /metrics"]) == {401, 403}
