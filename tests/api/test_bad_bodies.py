"""Bodies that are no JSON objects, names that are no tenants, floods, and bodies too large."""

import json
from collections.abc import Iterator

import httpx
import pytest
import redis

from tests.api.calls import (
    ADMIN_KEY,
    CONFIG,
    MAX_BODY_BYTES,
    assert_problem,
    bearer,
    call,
    content_of,
    create,
    decide,
    reward,
    select,
    send,
)
from tests.support.servers import Service

CALLS = [("PUT", "/tenants/new"), ("POST", "/select"), ("POST", "/reward")]
DEEP = 20_000
NO_OBJECTS: dict[str, bytes] = {
    "nothing": b"",
    "white space": b" \n ",
    "null": b"null",
    "a number": b"1",
    "NaN": b"NaN",
    "a text": b'"tenant"',
    "a list": b"[]",
    "a list of objects": b'[{"tenant": "a"}]',
    "half an object": b'{"tenant": "a"',
    "two objects": b"{}{}",
    "single quotes": b"{'tenant': 'a'}",
    "no quotes": b"{tenant: a}",
    "a form": b"tenant=a&context=0.5",
    "zero bytes": b"\0" * 10,
    "no UTF-8": b'{"tenant": "\xff"}',
    "half a character": b'{"tenant": "\xc3"}',
    "no UTF-8 at all": bytes(range(256)),
    "20,000 lists": b"[" * DEEP,
    "20,000 lists, closed": b"[" * DEEP + b"]" * DEEP,
    "20,000 objects": b'{"tenant":' * DEEP,
    "20,000 objects in a field": b'{"tenant": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "an integer of 5,000 digits": b'{"tenant": ' + b"1" * 5000 + b"}",
}
NO_NAMES = {
    "upper case": "Shop",
    "a brace": "%7D",
    "braces": "%7Bshop%7D",
    "a newline at the end": "shop%0A",
    "a zero byte": "shop%00",
    "64 characters": "a" * 64,
    "4,000 characters": "a" * 4000,
    "a dash first": "-shop",
    "a blank": "a%20b",
    "a colon": "a:b",
    "no UTF-8": "%FF",
    "an emoji": "%F0%9F%98%80",
    "no escape": "%zz",
}
NAMED_CALLS = [("PUT", ""), ("GET", ""), ("DELETE", ""), ("GET", "/partition")]
NO_DECISIONS = {
    "unknown": "never-issued",
    "empty": "",
    "a newline": "id\n",
    "zero byte": "\0",
    "as if made here": "A" * 20,
    "as if made at the end of time": "_" * 20,
    "20 characters, no base64": "!" * 20,
    "20 characters, bad padding": "=A" * 10,
    "20 characters, no ASCII": "é" * 20,
    "a key's ending": "x}:pointer:y",
    "long": "a" * 1024,
}


@pytest.mark.parametrize("kind", NO_OBJECTS)
@pytest.mark.parametrize("method, path", CALLS)
def test_a_body_that_is_no_object_is_refused(
    service: Service, raw: "redis.Redis", method: str, path: str, kind: str
) -> None:
    before = content_of(raw)
    assert_problem(send(service, method, path, NO_OBJECTS[kind]), 422)
    assert content_of(raw) == before


def test_the_place_where_the_json_ends_is_told(service: Service) -> None:
    answer = send(service, "POST", "/select", '{"tenant": "a",, "context": 0}')
    assert_problem(answer, 422, "not JSON at character 15")


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_not_sent_as_json_is_refused_with_advice(
    service: Service, raw: "redis.Redis", content_type: str | None
) -> None:
    """A browser's cross-site form cannot write either: it cannot send this content type."""
    headers = {"Content-Type": content_type} if content_type else {}
    answer = service.client.put("/tenants/new", content=json.dumps(CONFIG), headers=headers)
    assert_problem(answer, 422, "Content-Type: application/json")
    assert content_of(raw) == {}


@pytest.mark.parametrize("kind", NO_NAMES)
@pytest.mark.parametrize("method, suffix", NAMED_CALLS)
def test_a_bad_name_in_the_path_is_refused(
    service: Service, raw: "redis.Redis", method: str, suffix: str, kind: str
) -> None:
    path = f"/tenants/{NO_NAMES[kind]}{suffix}"
    answer = call(service, method, path, CONFIG if method == "PUT" else None)
    assert_problem(answer, 422, "tenant")
    assert content_of(raw) == {}


@pytest.mark.parametrize("path", ["/tenants/", "/tenants//", "/tenants/a%2Fb", "/tenants/a/"])
def test_a_path_that_is_no_tenants_is_not_found(
    service: Service, raw: "redis.Redis", path: str
) -> None:
    assert_problem(call(service, "PUT", path, CONFIG), 404)
    assert content_of(raw) == {}


def test_the_longest_name_is_taken(service: Service) -> None:
    tenant = create(service, "0" + "-_z" * 20 + "99")
    assert reward(service, tenant, decide(service, tenant)).status_code == 200


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("GET", "/tenants/nobody", None),
        ("DELETE", "/tenants/nobody", None),
        ("GET", "/tenants/nobody/partition", None),
        ("POST", "/select", {"tenant": "nobody", "context": 0.5}),
        ("POST", "/reward", {"tenant": "nobody", "decision_id": "a", "reward": 1}),
    ],
)
def test_an_unknown_tenant_is_not_found(
    service: Service, raw: "redis.Redis", method: str, path: str, body: dict[str, object] | None
) -> None:
    assert_problem(call(service, method, path, body), 404, "nobody")
    assert content_of(raw) == {}


@pytest.mark.parametrize("kind", NO_DECISIONS)
def test_a_reward_for_no_decision_is_not_found(
    service: Service, raw: "redis.Redis", kind: str
) -> None:
    """It is counted, and changes nothing else."""
    tenant = create(service)
    decide(service, tenant)
    before, counters = content_of(raw), service.counters(tenant)
    assert_problem(reward(service, tenant, NO_DECISIONS[kind]), 404)
    assert service.counters(tenant) == counters | {"rewards_unknown": 1}
    raw.hdel(f"zooming:{{{tenant}}}", "rewards_unknown")
    assert content_of(raw) == before


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("POST", "/select", {str(number): 0 for number in range(15_000)}),
        ("PUT", "/tenants/new", CONFIG | {"arms": [0] * 100_000}),
        ("PUT", "/tenants/new", CONFIG | {"arms": [""] * 100_000}),
        (
            "PUT",
            "/tenants/new",
            CONFIG | {"similarity": {"kind": "curves", "curves": [["x"] * 10_000] * 30}},
        ),
    ],
    ids=["fields", "arms", "names", "curves"],
)
def test_a_flood_of_mistakes_is_one_error(
    service: Service, method: str, path: str, body: dict[str, object]
) -> None:
    """An error a mistake would take a kilobyte each and the worker's time for seconds."""
    answer = call(service, method, path, body)
    assert_problem(answer, 422)
    assert len(answer.json()["errors"]) == 1


@pytest.mark.parametrize("path", ["/select", "/reward"])
def test_a_decision_has_a_smaller_limit(service: Service, path: str) -> None:
    """It is parsed before the key is looked at, so whoever sends it must not keep a worker busy."""
    answer = send(service, "POST", path, b"{" + b" " * 256 * 1024)
    assert_problem(answer, 413)


def padded(size: int) -> bytes:
    """A good configuration in so many bytes."""
    return json.dumps(CONFIG).encode().ljust(size)


def chunks(content: bytes) -> Iterator[bytes]:
    """What makes the client send it chunked, without a length."""
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


def put_padded(service: Service, size: int, *, chunked: bool) -> httpx.Response:
    """Sends a configuration of this size to the service that takes small bodies only."""
    headers = bearer(ADMIN_KEY) | {"Content-Type": "application/json"}
    content = chunks(padded(size)) if chunked else padded(size)
    return service.client.put("/tenants/new", content=content, headers=headers)


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_a_body_over_the_limit_is_refused(
    guarded: Service, raw: "redis.Redis", *, chunked: bool
) -> None:
    assert_problem(put_padded(guarded, MAX_BODY_BYTES + 1, chunked=chunked), 413)
    assert content_of(raw) == {}


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_a_body_at_the_limit_is_taken(guarded: Service, *, chunked: bool) -> None:
    assert put_padded(guarded, MAX_BODY_BYTES, chunked=chunked).status_code == 201


def test_all_this_leaves_a_tenant_as_it_was(service: Service) -> None:
    """A tenant between the lines: what is refused for one caller is no matter to another."""
    tenant = create(service)
    first = select(service, tenant, decision_id="mine")
    for method, path in CALLS:
        for content in NO_OBJECTS.values():
            send(service, method, path, content)
    assert select(service, tenant, decision_id="mine").content == first.content
    assert reward(service, tenant, "mine").json()["status"] == "applied"
