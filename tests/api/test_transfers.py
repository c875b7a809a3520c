"""Export and import over HTTP: what is answered, and every kind of file that is refused."""

import base64
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from service.api.transfers import NDJSON
from service.store import keys
from tests.api.calls import (
    ADMIN_KEY,
    CONFIG,
    MAX_BODY_BYTES,
    assert_problem,
    balls_of,
    bearer,
    call,
    content_of,
    create,
    decide,
    reward,
    select,
)
from tests.api.files import Line, export, import_, lines_in, sealed
from tests.support.engine import new_name
from tests.support.servers import Service, wait_for


def played(service: Service) -> str:
    """A tenant with balls, samples, and decisions open and rewarded."""
    name = create(service, neighbours=1, flag_coefficient=0.2)
    for trial in range(40):
        selection = select(service, name, trial % 8 / 8, decision_id=f"mine-{trial}").json()
        if trial % 5:
            reward(service, name, selection["decision_id"], trial % 3 / 2)
    return name


def state(service: Service, tenant: str) -> Any:
    """What is shown of a tenant, but for its name."""
    return {**call(service, "GET", f"/tenants/{tenant}").json(), "tenant": ""}


def test_what_was_exported_is_there_again_under_another_name(
    service: Service, twin: Service
) -> None:
    name, copy = played(service), new_name()
    answer = import_(twin, copy, export(service, name))
    assert answer.status_code == 201, answer.text
    assert answer.json()["tenant"] == copy
    assert {**answer.json(), "tenant": ""} == state(service, name) == state(service, copy)
    assert balls_of(service, copy) == balls_of(service, name)
    assert call(service, "GET", "/tenants").json()["tenants"] == sorted([name, copy])
    config = CONFIG | {"neighbours": 1, "flag_coefficient": 0.2}
    assert call(service, "PUT", f"/tenants/{copy}", config).status_code == 200
    assert reward(service, copy, "mine-0").json()["status"] == "applied"
    assert reward(service, copy, "mine-0").json()["status"] == "duplicate"
    assert reward(service, name, "mine-0").json()["status"] == "applied"


def test_the_file_says_what_it_is(service: Service) -> None:
    name = played(service)
    answer = call(service, "GET", f"/tenants/{name}/export")
    assert answer.headers["content-type"] == NDJSON
    assert f'filename="{name}.ndjson"' in answer.headers["content-disposition"]
    head, own, *_, end = lines_in(answer.content)
    assert {**head, "form": 0} == {
        "format": "zooming-export",
        "version": 1,
        "tenant": name,
        "form": 0,
    }
    assert (own["key"], own["type"]) == ("", "hash")
    assert end["end"]["lines"] == len(answer.content.splitlines()) - 1


def test_an_import_is_deleted_without_a_trace(service: Service, raw: "redis.Redis") -> None:
    name, copy = played(service), new_name()
    import_(service, copy, export(service, name))
    for tenant in (name, copy):
        assert call(service, "DELETE", f"/tenants/{tenant}").status_code == 204
    assert [key for key in content_of(raw) if b":pointer:" not in key] == []


def test_the_keys_come_along_and_the_large_file_is_taken(guarded: Service) -> None:
    """Also by a service that takes small bodies only."""
    name, copy = new_name(), new_name()
    config = CONFIG | {"arms": [f"arm {number}" for number in range(100)]}
    made = call(guarded, "PUT", f"/tenants/{name}", config, key=ADMIN_KEY).json()
    file = call(guarded, "GET", f"/tenants/{name}/export", key=ADMIN_KEY).content
    assert len(file) > MAX_BODY_BYTES
    path = f"/tenants/{copy}/import"
    assert guarded.client.post(path, content=file, headers=bearer(ADMIN_KEY)).status_code == 201
    body = {"tenant": copy, "context": 0.5}
    assert call(guarded, "POST", "/select", body, key=made["api_key"]).status_code == 200
    assert call(guarded, "POST", "/select", body, key="zk_garbage").status_code == 403


def test_only_the_path_of_imports_takes_any_size(guarded: Service) -> None:
    """A tenant may be called `import`."""
    large = b"x" * (MAX_BODY_BYTES + 1)
    headers = bearer(ADMIN_KEY)
    assert_problem(guarded.client.put("/tenants/import", content=large, headers=headers), 413)
    assert_problem(guarded.client.post("/tenants/a/keys", content=large, headers=headers), 413)
    assert_problem(guarded.client.post("/tenants/a/import", content=large, headers=headers), 422)


# -- what is frozen


def freeze(raw: "redis.Redis", tenant: str) -> None:
    """As an export on another host would."""
    until_ms = time.time_ns() // 1_000_000 + 60_000
    fields: Any = {"frozen_by": "another", "frozen_until_ms": until_ms}
    raw.hset(keys.tenant(tenant), mapping=fields)


def test_while_it_is_exported_a_tenant_answers_503(service: Service, raw: "redis.Redis") -> None:
    """Reads go on."""
    name = create(service)
    decision_id = decide(service, name)
    freeze(raw, name)
    answers = [
        select(service, name),
        reward(service, name, decision_id),
        call(service, "POST", "/select/batch", {"tenant": name, "items": [{"context": 0.5}]}),
        call(service, "GET", f"/tenants/{name}/export"),
    ]
    for answer in answers:
        assert_problem(answer, 503, "exported", "again")
        assert answer.headers["retry-after"] == "1"
    for path in (f"/tenants/{name}", f"/tenants/{name}/partition"):
        assert call(service, "GET", path).status_code == 200
    raw.hdel(keys.tenant(name), "frozen_by", "frozen_until_ms")
    assert reward(service, name, decision_id).json()["status"] == "applied"


def test_a_client_that_goes_away_thaws_the_tenant(service: Service) -> None:
    """Long before the freeze would run out; the file is too large for the buffers on its way."""
    name = create(service, arms=20_000, similarity={"kind": "none"})
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        request = f"GET /tenants/{name}/export HTTP/1.1\r\nHost: {host}\r\n\r\n"
        connection.sendall(request.encode())
        assert b"200 OK" in connection.recv(1000)
        assert select(service, name).status_code == 503
    gone = time.monotonic()
    wait_for(lambda: select(service, name).status_code == 200, what="the end of the freeze")
    assert time.monotonic() < gone + 5


# -- what is refused


def a_line(lines: list[Line], kind: str) -> Line:
    """Some line of this type, not the tenant's own."""
    return next(line for line in lines if line.get("type") == kind and line["key"])


def with_changed(kind: str, **changes: Any) -> Callable[[bytes], bytes]:
    """Changes a line of this type, and seals the file again."""

    def change(file: bytes) -> bytes:
        *lines, _ = lines_in(file)
        a_line(lines, kind).update(changes)
        return sealed(lines)

    return change


def with_head(**changes: Any) -> Callable[[bytes], bytes]:
    """Changes the first line, and seals the file again."""

    def change(file: bytes) -> bytes:
        head, *lines, _ = lines_in(file)
        return sealed([head | changes, *lines])

    return change


def with_own(**fields: str | None) -> Callable[[bytes], bytes]:
    """Changes fields of the tenant's own hash, and seals the file again."""

    def change(file: bytes) -> bytes:
        head, own, *lines, _ = lines_in(file)
        wanted = {base64.b64encode(name.encode()).decode(): text for name, text in fields.items()}
        items = [item for item in own["items"] if item[0] not in wanted]
        for name, text in wanted.items():
            if text is not None:
                items.append([name, base64.b64encode(text.encode()).decode()])
        return sealed([head, own | {"items": items}, *lines])

    return change


def flipped(file: bytes) -> bytes:
    """One letter of one value is another, and it is still base64 of what might be there."""
    place = file.index(b'"]]}', file.rindex(b'"string"')) - 4
    other = b"A" if file[place : place + 1] != b"A" else b"B"
    return file[:place] + other + file[place + 1 :]


def without_line(file: bytes) -> bytes:
    """A line in the middle is missing."""
    lines = file.splitlines(keepends=True)
    return b"".join(lines[:5] + lines[6:])


def swapped(file: bytes) -> bytes:
    """Two lines have changed places."""
    lines = file.splitlines(keepends=True)
    return b"".join([*lines[:5], lines[6], lines[5], *lines[7:]])


B64 = base64.b64encode(b"x").decode()
SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing": (lambda _: b"", "too early"),
    "the head alone": (lambda file: file.splitlines(keepends=True)[0], "too early"),
    "no end": (lambda file: file[: file.rindex(b'{"end"')], "too early"),
    "half a line at the end": (lambda file: file[:-20], "too early"),
    "half of it": (lambda file: file[: len(file) // 2], "too early"),
    "a byte less": (lambda file: file[:100] + file[101:], ""),
    "one value is another": (flipped, "not as it was written"),
    "a line is missing": (without_line, "not as it was written"),
    "lines have changed places": (swapped, ""),
    "twice": (lambda file: file + file, "goes on"),
    "an end more": (lambda file: file + b"\n", "goes on"),
    "broken off": (lambda file: file.splitlines(keepends=True)[0] + b'{"error":"x"}\n', "export"),
    "a page": (lambda _: b"<html>\n<body>\n", "not JSON"),
    "bytes": (lambda _: bytes(range(256)) * 100, "not JSON"),
    "no object": (lambda _: b"[1, 2]\n", "object"),
    "a number": (lambda _: b"NaN\n", "object"),
    "nested": (lambda _: b"[" * 100_000 + b"\n", "not JSON"),
    "another object": (lambda _: b'{"tenant": "shop"}\n', "no export"),
    "another format": (with_head(format="other"), "no export"),
    "a later version": (with_head(version=2), "version 2"),
    "no version": (with_head(version=None), "Line 1"),
    "another form": (with_head(form=999), "form 999"),
    "no form": (with_head(form="4"), "Line 1"),
    "no tenant in it": (lambda file: sealed([lines_in(file)[0], *lines_in(file)[2:-1]]), "second"),
    "two tenants in it": (
        lambda file: sealed([*lines_in(file)[:2], *lines_in(file)[1:-1]]),
        "order",
    ),
    "two heads": (lambda file: sealed([*lines_in(file)[:1], *lines_in(file)[:-1]]), "Line 2"),
    "no document": (with_own(document=None), "second"),
    "no keys": (with_own(keys=None), "second"),
    "a document that is none": (with_own(document="[]"), "second"),
    "an empty document": (with_own(document="{}"), "second"),
    "keys that are none": (with_own(keys='[{"id": 1}]'), "second"),
    "an unknown kind of key": (with_changed("string", key="other:1"), "Line"),
    "a key of another tenant": (with_changed("string", key="../x"), "Line"),
    "a key with too many parts": (with_changed("hash", key="balls:1"), "Line"),
    "a key with an empty part": (with_changed("string", key="arms:"), "Line"),
    "the place of the tenant": (with_changed("hash", key="staged"), "Line"),
    "no text for a key": (with_changed("string", key=1), "Line"),
    "letters beyond ASCII": (with_changed("string", key="arms:\ud800"), "Line"),
    "an unknown type": (with_changed("string", type="json"), "Line"),
    "another type": (with_changed("string", type="hash"), "Line"),
    "no type": (with_changed("string", type=None), "Line"),
    "a type that is none": (with_changed("string", type=["string"]), "Line"),
    "no items": (with_changed("hash", items=[]), "Line"),
    "items that are none": (with_changed("hash", items={"a": 1}), "Line"),
    "an item that is none": (with_changed("hash", items=["aa"]), "Line"),
    "half an item": (with_changed("hash", items=[[B64]]), "Line"),
    "no base64": (with_changed("string", items=[["!"]]), "Line"),
    "bad padding": (with_changed("string", items=[["A"]]), "Line"),
    "numbers for bytes": (with_changed("string", items=[[1]]), "Line"),
    "two strings in one": (with_changed("string", items=[[B64], [B64]]), "Line"),
    "a score that is none": (with_changed("zset", items=[[B64, B64]]), "Line"),
    "a score that is no number": (
        with_changed("zset", items=[[B64, base64.b64encode(b"nan").decode()]]),
        "Line",
    ),
    "a hole": (with_changed("string", at=500_000_000), "follow"),
    "before the beginning": (with_changed("string", at=-1), "Line"),
    "a place that is none": (with_changed("string", at=True), "Line"),
    "a time that is none": (with_changed("string", ttl_ms="1"), "Line"),
    "a time beyond all times": (with_changed("string", ttl_ms=10**30), "Line"),
    "a field too many": (with_changed("string", more=1), "Line"),
}


@pytest.fixture(scope="module")
def file_of_a_tenant(shared_service: Service) -> bytes:
    """The file of a tenant that is gone."""
    name = played(shared_service)
    file = export(shared_service, name)
    assert call(shared_service, "DELETE", f"/tenants/{name}").status_code == 204
    return file


@pytest.mark.parametrize("case", SPOILT)
def test_a_file_that_is_not_whole_is_refused_and_leaves_nothing(
    service: Service, raw: "redis.Redis", file_of_a_tenant: bytes, case: str
) -> None:
    (spoil, said), file = SPOILT[case], file_of_a_tenant
    assert import_(service, "original", file).status_code == 201
    before = content_of(raw)
    answer = import_(service, "copy", spoil(file))
    assert_problem(answer, 422, said)
    assert "Traceback" not in answer.text
    assert content_of(raw) == before
    assert import_(service, "copy", file).status_code == 201


def test_a_line_without_an_end_is_cut_off(service: Service, raw: "redis.Redis") -> None:
    """Before it fills the memory."""

    def chunks() -> Iterator[bytes]:
        for _ in range(140):
            yield b"x" * (1 << 20)

    assert_problem(import_(service, "copy", chunks()), 422, "line")
    assert content_of(raw) == {}


def test_a_name_that_is_taken_is_refused(service: Service, raw: "redis.Redis") -> None:
    """Even when the file is large and still on its way; the tenant there is left alone."""
    name = played(service)
    file = export(service, name)
    before = content_of(raw)
    assert_problem(import_(service, name, file), 409, name)
    assert_problem(import_(service, name, iter([file] * 200)), 409, name)
    assert content_of(raw) == before


def test_of_two_imports_under_one_name_one_is_made(service: Service, twin: Service) -> None:
    """The one that ends first; the other finds the name taken, and leaves nothing."""
    file = export(service, played(service))

    def slowly() -> Iterator[bytes]:
        yield file[:-10]
        answer = import_(twin, "copy", file)
        assert answer.status_code == 201, answer.text
        yield file[-10:]

    assert_problem(import_(service, "copy", slowly()), 409, "copy")
    assert balls_of(service, "copy") == balls_of(twin, "copy")
    names = call(service, "GET", "/tenants").json()["tenants"]
    assert "copy" in names
    assert call(service, "DELETE", "/tenants/copy").status_code == 204
    assert "copy" not in call(service, "GET", "/tenants").json()["tenants"]


def test_a_connection_that_is_lost_leaves_nothing(service: Service, raw: "redis.Redis") -> None:
    file = export(service, played(service))
    before = content_of(raw)
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /tenants/copy/import HTTP/1.1\r\nHost: {host}\r\n"
        size = f"Content-Length: {len(file)}\r\n\r\n"
        connection.sendall((head + size).encode() + file[: len(file) // 2])
        wait_for(lambda: raw.exists(keys.IMPORTS), what="the beginning of the import")
    wait_for(lambda: content_of(raw) == before, what="the end of the import")
    assert "copy" not in call(service, "GET", "/tenants").json()["tenants"]
