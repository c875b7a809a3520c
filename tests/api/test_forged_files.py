"""A file whose digest is right may still have been written by anyone: nobody suffers from it."""

import base64
import json
import math
import struct
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import redis

from service.store import ModelRecord, keys
from service.store.records import CurveBall, CurveRecord
from tests.api.calls import CONFIG, assert_problem, call, content_of, create, select
from tests.api.files import Line, export, import_, lines_in, sealed
from tests.support.engine import new_name
from tests.support.servers import Service

ADAPTIVE: dict[str, Any] = {"arms": 2, "log_entries": 10, "holdout": 0.5}
NAN = struct.pack("<d", float("nan"))


def b64(part: bytes) -> str:
    return base64.b64encode(part).decode()


def own_of(file: bytes) -> dict[bytes, bytes]:
    """The tenant's own hash."""
    items = lines_in(file)[1]["items"]
    return {base64.b64decode(field): base64.b64decode(value) for field, value in items}


def with_own(file: bytes, changes: dict[str, bytes | None], *, more: list[Line]) -> bytes:
    """The file with other fields in the tenant's hash, and more lines, sealed again."""
    head, own, *lines, _ = lines_in(file)
    fields: dict[bytes, bytes | None] = {**own_of(file)}
    fields |= {name.encode("latin-1"): value for name, value in changes.items()}
    items = [[b64(name), b64(value)] for name, value in fields.items() if value is not None]
    return sealed([head, own | {"items": items}, *lines, *more])


def line(key: str, kind: str, *items: list[bytes]) -> Line:
    """A key of the tenant."""
    parts = [[b64(part) for part in item] for item in items]
    return {"key": key, "type": kind, "ttl_ms": None, "at": 0, "items": parts}


def own(**changes: bytes | None) -> Callable[[bytes], bytes]:
    """Changes fields of the tenant's hash."""
    return lambda file: with_own(file, changes, more=[])


def more(*lines: Line) -> Callable[[bytes], bytes]:
    """Adds keys."""
    return lambda file: with_own(file, {}, more=[*lines])


def document(**changes: Any) -> Callable[[bytes], bytes]:
    """Changes what the document says."""

    def change(file: bytes) -> bytes:
        found = json.loads(own_of(file)[b"document"])
        return with_own(file, {"document": json.dumps(found | changes).encode()}, more=[])

    return change


def settings(**changes: Any) -> Callable[[bytes], bytes]:
    """Changes settings."""

    def change(file: bytes) -> bytes:
        found = json.loads(own_of(file)[b"document"])["settings"]
        return document(settings=found | changes)(file)

    return change


def entry(**fields: bytes) -> Line:
    """A log of one entry."""
    parts = [part for name, value in fields.items() for part in (name.encode(), value)]
    return line("log", "stream", [b"9999999999999-1", *parts])


def model(**forged: float) -> bytes:
    """What a tenant of `adaptive` has learned, but for what is forged."""
    learned = {"fresh": 1, "variance": 0.01, "shown_lipschitz": 1.0, "horizon": 128.0}
    return ModelRecord(**(learned | forged)).pack()  # type: ignore[arg-type]


def ball(**forged: float) -> bytes:
    """A ball over all contexts, but for what is forged."""
    known: dict[str, Any] = dict.fromkeys((field.name for field in fields(CurveBall)), 0)
    known |= {"mean": 0.5, "variance": 0.1, "ucb": 1.0, "id": 9}
    return CurveBall.LAYOUT.pack(*(known | forged).values())


def packed_curve(*balls: bytes, rewards: float = 0.0) -> bytes:
    """A curve of these balls."""
    return b"".join((CurveRecord.HEAD.pack(0, rewards, 0.0, 0.0, 0.0, 0.0), *balls))


def curve(*balls: bytes, rewards: float = 0.0) -> Callable[[bytes], bytes]:
    """Adds the curve of an arm that had none."""
    return more(line("curve:1", "string", [packed_curve(*balls, rewards=rewards)]))


WHOLE = packed_curve(ball())
LEFT, RIGHT = ball(depth=1), ball(depth=1, index=1)
# Tenants that no step could serve, or only by keeping all others waiting.
FORGED_CURVES: dict[str, Callable[[bytes], bytes]] = {
    "no balls": curve(),
    "no head": more(line("curve:1", "string", [b"abc"])),
    "half a ball": curve(LEFT, RIGHT, LEFT[:40]),
    "thousands of balls": curve(*(ball(depth=12, index=index) for index in range(4096))),
    "more than a curve has": curve(*(ball(depth=7, index=index) for index in range(128))),
    "nothing at the left": curve(RIGHT),
    "nothing at the right": curve(LEFT),
    "a gap": curve(LEFT, ball(depth=2, index=3)),
    "a ball twice": curve(LEFT, LEFT, RIGHT),
    "balls that overlap": curve(ball(), RIGHT),
    "balls in another order": curve(RIGHT, LEFT),
    "balls too deep": curve(
        ball(depth=31), *(ball(depth=depth, index=1) for depth in range(31, 0, -1))
    ),
    "rewards that are none": curve(ball(), rewards=math.nan),
    "rewards below none": curve(ball(), rewards=-1.0),
    "a mean that is none": curve(ball(mean=math.nan)),
    "a bound that is none": curve(ball(ucb=math.inf)),
    "a count below none": curve(ball(count_left=-1.0)),
    "nothing unknown": curve(ball(variance=0.0)),
    "an unknown arm": more(line("curve:2", "string", [WHOLE])),
    "an arm that is none": more(line("curve:x", "string", [WHOLE])),
}


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "sums too short": own(sums=b"abc"),
    "sums that are none": own(sums=NAN * 3),
    "no sums": own(sums=None),
    "no model": own(model=b""),
    "a model too long": own(model=bytes(200)),
    "a model of numbers that are none": own(model=model(total=math.nan)),
    "a model without a horizon": own(model=model(horizon=0.0)),
    "a model of curves that do not bend": own(model=model(steepness=0.0)),
    "a model of curves that bend by no number": own(model=model(steepness=math.nan)),
    "a model of curves too steep": own(model=model(steepness=4.0)),
    "a model that waits for ever": own(model=model(bent_at=1e300)),
    "a model of bends that cannot be": own(model=model(bends_known=-2.0)),
    "no comparison": own(comparison=b""),
    "a comparison of numbers that are none": own(comparison=NAN * 6),
    "a depth of thousands": own(depth=b"20000"),
    "no depth": own(depth=None),
    "a depth that is none": own(depth=b"x"),
    "balls beyond all": own(next_ball=b"1000000000000"),
    "a counter that is none": own(trials_active=b"x"),
    "a counter beyond all": own(splits=b"9" * 40),
    "clusters too deep": own(clusters_31=b"1"),
    "an unknown field": own(other=b"1"),
    "a field beyond ASCII": own(**{"\xff": b"1"}),
    "a catalogue that is no text": more(line("catalogue", "hash", [b"2", bytes(4) + b"\xff"])),
    "an arm without a name": more(line("catalogue", "hash", [b"2", bytes(4)])),
    "an arm twice": more(line("catalogue", "hash", [b"2", bytes(4) + b"0"])),
    "an arm too far": more(line("catalogue", "hash", [b"9", bytes(4) + b"new"])),
    "an arm without a number": more(line("catalogue", "hash", [b"x", bytes(4) + b"new"])),
    "a state that is none": more(line("states", "string", [b"\xff"])),
    "too many states": more(line("states", "string", [bytes(30_000)])),
    "another type": more(line("slots", "string", [b"x"])),
    "a slot that is none": more(line("slots", "zset", [b"x", b"1"])),
    "an event without an arm": more(entry(event=b"x")),
    "an event that is none": more(entry(event=b"x", at=b"1", arm=b"0")),
    "an event of no time": more(entry(event=b"arm_added", at=b"1e300", arm=b"0")),
    "an event of an unknown arm": more(entry(event=b"arm_added", at=b"1", arm=b"7")),
    "an event that lacks all": more(entry(event=b"selected", at=b"1", arm=b"0")),
    "millions of arms": settings(arms=3_000_000),
    "arms beyond all memory": settings(arms=10**15),
    "no arms": settings(arms=0),
    "an unknown setting": settings(other=1),
    "an unknown preset": settings(preset="x"),
    "a setting that is left out": settings(max_depth=None),
    "a window that is none": settings(reward_window_seconds="1"),
    "a scale that is none": settings(context_scale=7),
    "a scale without knots": settings(
        context_scale={"kind": "quantiles", "values": [], "places": []}
    ),
    "a scale that falls": settings(
        context_scale={"kind": "quantiles", "values": [1.0, 0.0], "places": [0.1, 0.2]}
    ),
    "settings that are none": document(settings=[]),
    "no digest": document(body_digest=1),
    "a time beyond all": document(created_at_ms=10**18),
    "more in the document": document(other=1),
    "a key that is none": own(keys=b'[{"id": 1, "hash": "x", "created_at_ms": 1}]'),
}


@pytest.mark.parametrize("case", FORGED | FORGED_CURVES)
def test_a_forged_file_is_refused_and_leaves_nothing(
    service: Service, raw: "redis.Redis", case: str
) -> None:
    name = new_name()
    assert call(service, "PUT", f"/tenants/{name}", ADAPTIVE).status_code == 201
    select(service, name)
    file = export(service, name)
    before = content_of(raw).keys()
    forge, said = (FORGED | FORGED_CURVES)[case], "curve" if case in FORGED_CURVES else ""
    assert_problem(import_(service, "copy", forge(file)), 422, said)
    assert content_of(raw).keys() == before


def test_a_paper_tenant_has_no_more_balls_than_a_deletion_can_look_for(
    service: Service, raw: "redis.Redis"
) -> None:
    file = export(service, create(service))
    before = content_of(raw).keys()
    assert_problem(import_(service, "copy", own(next_ball=b"4000000000")(file)), 422, "next_ball")
    assert_problem(import_(service, "copy", own(model=model())(file)), 422, "model")
    assert content_of(raw).keys() == before


def test_what_follows_from_the_document_is_not_taken_from_the_file(
    service: Service, raw: "redis.Redis"
) -> None:
    name = new_name()
    call(service, "PUT", f"/tenants/{name}", ADAPTIVE)
    file = export(service, name)
    forged = own(arms_ever=b"1000000000000", arms=b"0", window_ms=b"x", max_depth=b"9999")(file)
    assert import_(service, "copy", forged).status_code == 201
    left_out = {b"incarnation", b"revision"}
    state: dict[bytes, bytes] = raw.hgetall(keys.tenant("copy"))  # type: ignore[assignment]
    assert {field: state[field] for field in state.keys() - left_out} == {
        field: value for field, value in own_of(file).items() if field not in left_out
    }
    assert call(service, "DELETE", "/tenants/copy").status_code == 204


@pytest.mark.parametrize(
    "config",
    [
        CONFIG | {"noise": 1000.0},
        CONFIG | {"context_scale": {"kind": "quantiles", "values": [3.0, 1.0, 2.0]}},
        {"arms": ["a", "b"], "context_scale": {"kind": "auto", "contexts": 10}},
        {"arms": 2, "noise": 0, "default_reward": 1, "reward_range": [-3, 4]},
    ],
)
def test_settings_that_are_kept_in_another_form_are_taken(
    service: Service, config: dict[str, Any]
) -> None:
    """Also a scale that was learned, from contexts that are all the same."""
    name, copy = new_name(), new_name()
    assert call(service, "PUT", f"/tenants/{name}", config).status_code == 201
    for _ in range(11):
        assert select(service, name, 1.0).status_code == 200
    call(service, "PATCH", f"/tenants/{name}", {"default_reward": 0.5, "holdout": 1})
    for changed in ("PUT", "DELETE"):
        call(service, changed, f"/tenants/{name}/arms/new")
    answer = import_(service, copy, export(service, name))
    assert answer.status_code == 201, answer.text
    assert select(service, copy, 1.0).status_code == 200
