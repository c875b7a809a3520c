"""Who may do what: every route with every kind of key, and where keys must never be seen."""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import redis

from service.settings import Settings
from tests.api.calls import ADMIN_KEY, CONFIG, assert_problem, bearer, call, strict_json
from tests.support.engine import new_name
from tests.support.servers import Service, free_port

# Route -> who may call it.
ROUTES = {
    "PUT /tenants/{tenant}": "admin",
    "PATCH /tenants/{tenant}": "admin",
    "POST /tenants/{tenant}/keys": "admin",
    "DELETE /tenants/{tenant}/keys/{key_id}": "admin",
    "GET /tenants/{tenant}/export": "admin",
    "POST /tenants/{tenant}/import": "admin",
    "GET /tenants": "admin",
    "DELETE /tenants/{tenant}": "admin",
    "GET /tenants/{tenant}": "tenant",
    "GET /tenants/{tenant}/partition": "tenant",
    "GET /tenants/{tenant}/log": "tenant",
    "GET /tenants/{tenant}/arms": "tenant",
    "PUT /tenants/{tenant}/arms/{arm}": "admin",
    "PATCH /tenants/{tenant}/arms/{arm}": "admin",
    "DELETE /tenants/{tenant}/arms/{arm}": "admin",
    "GET /decisions/{tenant}/{decision_id}": "tenant",
    "POST /decisions/{tenant}/{decision_id}/censor": "tenant",
    "POST /select": "tenant",
    "POST /reward": "tenant",
    "POST /select/batch": "tenant",
    "POST /reward/batch": "tenant",
    "GET /health/live": "anyone",
    "GET /health/ready": "anyone",
    "GET /metrics": "anyone",
}
OPEN_PAGES = ["/docs", "/openapi.json"]
TENANT_ROUTES = [route for route, who in ROUTES.items() if who == "tenant"]
SUCCESS = {
    "POST /tenants/{tenant}/keys": 201,
    "POST /tenants/{tenant}/import": 201,
    "DELETE /tenants/{tenant}": 204,
    "DELETE /tenants/{tenant}/keys/{key_id}": 204,
    "DELETE /tenants/{tenant}/arms/{arm}": 204,
}
# Kind of key -> the answer where the admin's, or the tenant's, is wanted; 0 is success.
ANSWERS = {
    "none": {"admin": 401, "tenant": 401},
    "garbage": {"admin": 403, "tenant": 403},
    "another tenant's": {"admin": 403, "tenant": 403},
    "a deleted tenant's": {"admin": 403, "tenant": 403},
    "a former tenant's of that name": {"admin": 403, "tenant": 403},
    "a revoked one": {"admin": 403, "tenant": 403},
    "the tenant's": {"admin": 403, "tenant": 0},
    "the admin's": {"admin": 0, "tenant": 0},
}


@dataclass
class Made:
    """A tenant with its key and an open decision."""

    name: str
    key_id: str
    key: str
    decision_id: str


def make(service: Service, name: str | None = None) -> Made:
    """A new tenant."""
    name = name or new_name()
    answer = call(service, "PUT", f"/tenants/{name}", CONFIG, key=ADMIN_KEY)
    assert answer.status_code == 201, answer.text
    key_id, key = answer.json()["key_id"], answer.json()["api_key"]
    body = {"tenant": name, "context": 0.5}
    selection = call(service, "POST", "/select", body, key=key)
    return Made(name, key_id, key, selection.json()["decision_id"])


def use(service: Service, made: Made, route: str, *, key: str | None) -> httpx.Response:
    """Calls the route for the tenant, with a body that is right."""
    method, path = route.split()
    if path.endswith("/import"):
        file = call(service, "GET", f"/tenants/{made.name}/export", key=ADMIN_KEY).content
        headers = bearer(key)
        return service.client.post(f"/tenants/{made.name}-2/import", content=file, headers=headers)
    bodies: dict[str, Any] = {
        "PUT /tenants/{tenant}": CONFIG,
        "PATCH /tenants/{tenant}": {"split_wait_ms": 5},
        "PATCH /tenants/{tenant}/arms/{arm}": {"paused": True},
        "POST /select": {"tenant": made.name, "context": 0.5},
        "POST /reward": {"tenant": made.name, "decision_id": made.decision_id, "reward": 1.0},
        "POST /select/batch": {"tenant": made.name, "items": [{"context": 0.5}]},
        "POST /reward/batch": {
            "tenant": made.name,
            "items": [{"decision_id": made.decision_id, "reward": 1.0}],
        },
    }
    path = path.format(tenant=made.name, key_id=made.key_id, arm="1", decision_id=made.decision_id)
    return call(service, method, path, bodies.get(route), key=key)


def key_of_kind(service: Service, kind: str, tenant: str) -> tuple[Made, str | None]:
    """The tenant, and a key of this kind."""
    former = make(service, tenant)
    call(service, "DELETE", f"/tenants/{tenant}", key=ADMIN_KEY)
    made, deleted = make(service, tenant), make(service)
    call(service, "DELETE", f"/tenants/{deleted.name}", key=ADMIN_KEY)
    revoked = call(service, "POST", f"/tenants/{tenant}/keys", {}, key=ADMIN_KEY).json()
    path = f"/tenants/{tenant}/keys/{revoked['key_id']}"
    assert call(service, "DELETE", path, key=ADMIN_KEY).status_code == 204
    keys = {
        "none": None,
        "garbage": "zk_garbage",
        "another tenant's": make(service).key,
        "a deleted tenant's": deleted.key,
        "a former tenant's of that name": former.key,
        "a revoked one": revoked["api_key"],
        "the tenant's": made.key,
        "the admin's": ADMIN_KEY,
    }
    return made, keys[kind]


def everything_in(store: "redis.Redis") -> bytes:
    """All keys and values of the store, readable."""
    readers: dict[bytes | str, Any] = {
        b"string": store.get,
        b"hash": store.hgetall,
        b"zset": lambda key: store.zrange(key, 0, -1),
    }
    return b"\n".join(
        b"%r %r" % (key, readers[store.type(key)](key)) for key in store.scan_iter(count=1000)
    )


@pytest.mark.parametrize("route", [route for route, who in ROUTES.items() if who != "anyone"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_key_opens_what_it_should_and_nothing_else(
    guarded: Service, kind: str, route: str
) -> None:
    made, key = key_of_kind(guarded, kind, new_name())
    answer = use(guarded, made, route, key=key)
    refused = ANSWERS[kind][ROUTES[route]]
    if refused:
        assert_problem(answer, refused)
        assert (answer.headers.get("www-authenticate") == "Bearer") == (refused == 401)
    else:
        assert answer.status_code == SUCCESS.get(route, 200), answer.text


def test_the_table_has_every_route(guarded: Service) -> None:
    paths = strict_json(call(guarded, "GET", "/openapi.json").text)["paths"]
    listed = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert listed == set(ROUTES)


@pytest.mark.parametrize("route", TENANT_ROUTES)
@pytest.mark.parametrize("key", [None, "zk_garbage", "a tenant's"])
def test_a_key_that_opens_neither_cannot_tell_a_tenant_from_none(
    guarded: Service, route: str, key: str | None
) -> None:
    there, elsewhere = make(guarded), make(guarded)
    missing = Made(new_name(), "", "", there.decision_id)
    key = elsewhere.key if key == "a tenant's" else key
    answers = [use(guarded, made, route, key=key) for made in (there, missing)]
    texts = [
        answer.text.replace(made.name, "NAME")
        for answer, made in zip(answers, (there, missing), strict=True)
    ]
    headers = [dict(answer.headers) | {"date": ""} for answer in answers]
    assert texts[0] == texts[1]
    assert headers[0] == headers[1]
    assert answers[0].status_code == answers[1].status_code == (401 if key is None else 403)


@pytest.mark.parametrize("header", ["Basic {}", "Token {}", "{}", "Bearer", "Bearer{}", ""])
def test_only_a_bearer_key_counts(guarded: Service, header: str) -> None:
    headers = {"Authorization": header.format(ADMIN_KEY)}
    assert_problem(guarded.client.get("/tenants", headers=headers), 401)


@pytest.mark.parametrize("header", ["bearer {}", "BEARER {}", "Bearer   {}"])
def test_the_scheme_is_read_as_the_standard_wants(guarded: Service, header: str) -> None:
    headers = {"Authorization": header.format(ADMIN_KEY)}
    assert guarded.client.get("/tenants", headers=headers).status_code == 200


@pytest.mark.parametrize("key", [ADMIN_KEY[:-1], ADMIN_KEY + "x", ADMIN_KEY.upper(), "é"])
def test_nearly_the_admin_key_is_not_the_admin_key(guarded: Service, key: str) -> None:
    headers = {b"Authorization": b"Bearer " + key.encode()}
    assert_problem(guarded.client.get("/tenants", headers=headers), 403)


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", *OPEN_PAGES])
def test_probes_and_docs_need_no_key(guarded: Service, path: str) -> None:
    assert guarded.client.get(path).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("key", [None, "zk_garbage"])
def test_without_an_admin_key_everything_is_open(
    service: Service, key: str | None, route: str
) -> None:
    made = make(service)
    assert use(service, made, route, key=key).status_code == SUCCESS.get(route, 200)


def test_only_hashes_of_keys_are_stored(guarded: Service, raw: "redis.Redis") -> None:
    made = make(guarded)
    stored = everything_in(raw)
    assert hashlib.sha256(made.key.encode()).hexdigest().encode() in stored
    assert made.key.removeprefix("zk_").encode() not in stored
    assert ADMIN_KEY.encode() not in stored


def test_keys_are_not_logged(guarded: Service, storeless: Service) -> None:
    """Neither in good times nor with the errors of a store that is gone."""
    made = make(guarded)
    for route in ROUTES:
        use(guarded, made, route, key=made.key)
        use(guarded, made, route, key=ADMIN_KEY)
    assert call(storeless, "GET", "/tenants", key=ADMIN_KEY).status_code == 503
    assert "store unavailable" in storeless.log_text()
    log = guarded.log_text() + storeless.log_text()
    assert ADMIN_KEY not in log
    assert "zk_" not in log


@pytest.mark.parametrize(
    "host, by",
    [("0.0.0.0", "flag"), ("0.0.0.0", "variable"), ("::", "flag")],  # noqa: S104  # refused
)
def test_an_open_service_binds_loopback_only(host: str, by: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if "ZOOMING_" not in name}
    flags = ["--port", str(free_port()), *(["--host", host] if by == "flag" else [])]
    variables = {"ZOOMING_HOST": host} if by == "variable" else {}
    done = subprocess.run(
        [sys.executable, "-m", "service", "serve", *flags],
        env=inherited | variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("zooming: Without ZOOMING_ADMIN_KEY")
    assert f"'{host}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_guarded_service_may_bind_anything() -> None:
    assert Settings(host="0.0.0.0", admin_key=ADMIN_KEY).host == "0.0.0.0"  # noqa: S104
