"""Bad input of every kind in every field: refused by name, nothing written, nobody hurt."""

import itertools
import json
from typing import Any

import pytest
import redis
from pydantic import BaseModel

from service.api.change_schemas import KeyRequest, TenantChanges
from service.api.decision_schemas import RewardBatch, RewardRequest, SelectBatch, SelectRequest
from service.api.schemas import ArmChange, TenantConfig
from tests.api.calls import (
    CONFIG,
    assert_problem,
    call,
    content_of,
    create,
    decide,
    reward,
    select,
    send,
)
from tests.api.values import BAD, GOOD
from tests.support.engine import new_name
from tests.support.servers import Service

SCHEMAS: dict[str, type[BaseModel]] = {
    "PUT /tenants/new": TenantConfig,
    "PATCH /tenants/known": TenantChanges,
    "POST /tenants/known/keys": KeyRequest,
    "PATCH /tenants/known/arms/1": ArmChange,
    "POST /select": SelectRequest,
    "POST /reward": RewardRequest,
    "POST /select/batch": SelectBatch,
    "POST /reward/batch": RewardBatch,
}
EVERY_FIELD = [(name, field) for name, fields in BAD.items() for field in fields]
EVERY_REQUIRED_FIELD = [
    (name, field)
    for name, schema in SCHEMAS.items()
    for field, about in schema.model_fields.items()
    if about.is_required()
]
# Configurations at the ends of what is allowed; all must be playable.
EXTREMES: dict[str, dict[str, Any]] = {
    "nothing is ever certain": {"noise": 1000, "confidence_coefficient": 1000, "horizon": 10**12},
    "flagged at once": {"flag_coefficient": 0, "neighbours": 1, "patience": 1},
    "split at once, down to the deepest": {"arms": 1, "flag_coefficient": 0, "max_depth": 30},
    "no terms at all": {
        "noise": 0,
        "flag_coefficient": 0,
        "confidence_coefficient": 0,
        "diameter_coefficient": 0,
        "cluster_ratio": 0,
        "neighbours": 1,
    },
    "all terms at their largest": {
        "noise": 1000,
        "lipschitz": 1000,
        "flag_coefficient": 1000,
        "confidence_coefficient": 1000,
        "diameter_coefficient": 1000,
        "cluster_ratio": 1000,
    },
    "an endless flagged phase": {"preset": "paper", "noise": 1000, "lipschitz": 0.001},
    "as many cells as may be": {"buckets": 1024, "grid": 10_000, "neighbours": 1},
    "huge features": {
        "similarity": {"kind": "features", "features": [[1e100] * 9, [-1e100] * 9, [0.0] * 9]}
    },
    "huge curves": {
        "similarity": {"kind": "curves", "curves": [[1e100, -1e100], [-1e100, 1e100], [0, 0]]}
    },
    "no waiting": {"split_wait_ms": 0, "neighbours": 1},
}


def good_bodies(service: Service) -> dict[str, dict[str, Any]]:
    """For each call a body that would be taken; a field of it is then spoilt."""
    tenant = create(service, "known")
    decision_id = decide(service, tenant)
    return {
        "PUT /tenants/new": CONFIG,
        "PATCH /tenants/known": {"split_wait_ms": 5},
        "POST /tenants/known/keys": {"expires_in_seconds": 60},
        "PATCH /tenants/known/arms/1": {"paused": True},
        "POST /select": {"tenant": tenant, "context": 0.5},
        "POST /reward": {"tenant": tenant, "decision_id": decision_id, "reward": 1.0},
        "POST /select/batch": {"tenant": tenant, "items": [{"context": 0.5}]},
        "POST /reward/batch": {
            "tenant": tenant,
            "items": [{"decision_id": decision_id, "reward": 1.0}],
        },
    }


def with_field(body: dict[str, Any], field: str, text: str) -> str:
    """The body as JSON text, with this text for the field's value."""
    rest = {name: value for name, value in body.items() if name != field}
    return json.dumps(rest)[:-1] + f'{", " if rest else ""}"{field}": {text}}}'


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_table_has_every_field(name: str) -> None:
    assert set(BAD[name]) == set(SCHEMAS[name].model_fields)


@pytest.mark.parametrize("name, field", EVERY_FIELD)
def test_a_bad_value_is_refused_by_name_and_writes_nothing(
    service: Service, raw: "redis.Redis", name: str, field: str
) -> None:
    (method, path), body = name.split(), good_bodies(service)[name]
    before = content_of(raw)
    for text in BAD[name][field]:
        answer = send(service, method, path, with_field(body, field, text))
        assert_problem(answer, 422, field)
    assert content_of(raw) == before
    assert call(service, method, path, body).is_success


@pytest.mark.parametrize("name, field", EVERY_REQUIRED_FIELD)
def test_a_missing_field_is_named(
    service: Service, raw: "redis.Redis", name: str, field: str
) -> None:
    (method, path), body = name.split(), dict(good_bodies(service)[name])
    before = content_of(raw)
    del body[field]
    assert_problem(call(service, method, path, body), 422, field)
    assert content_of(raw) == before


@pytest.mark.parametrize("field", ["unknown", "Arms", "", "é", "a.b", "__proto__", "n" * 100_000])
@pytest.mark.parametrize("name", SCHEMAS)
def test_an_unknown_field_is_named(
    service: Service, raw: "redis.Redis", name: str, field: str
) -> None:
    (method, path), body = name.split(), good_bodies(service)[name]
    before = content_of(raw)
    answer = call(service, method, path, body | {field: 1})
    assert_problem(answer, 422, field[:200])
    assert len(answer.content) < 2000
    assert content_of(raw) == before


@pytest.mark.parametrize("field", GOOD)
def test_good_values_up_to_the_bounds_are_taken(service: Service, field: str) -> None:
    for text in GOOD[field]:
        path = f"/tenants/{new_name()}"
        answer = send(service, "PUT", path, with_field(CONFIG, field, text))
        assert answer.status_code == 201, (text, answer.text)
        assert call(service, "DELETE", path).status_code == 204


def test_good_values_are_known_for_every_field() -> None:
    assert set(GOOD) == set(TenantConfig.model_fields)


@pytest.mark.parametrize("context", ["0", "0.0", "-0", "-0.0", "5e-324", "1e-400", "1", "1.0"])
def test_contexts_up_to_the_bounds_are_taken(service: Service, context: str) -> None:
    body = {"tenant": create(service)}
    answer = send(service, "POST", "/select", with_field(body, "context", context))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("value", ["0", "-0.0", "5e-324", "1000000", "-1000000", "1e6"])
def test_rewards_up_to_the_bounds_are_taken(service: Service, value: str) -> None:
    tenant = create(service)
    body = {"tenant": tenant, "decision_id": decide(service, tenant)}
    answer = send(service, "POST", "/reward", with_field(body, "reward", value))
    assert answer.status_code == 200, answer.text


def test_minus_zero_is_zero(service: Service) -> None:
    tenant = create(service, noise=-0.0)
    first = select(service, tenant, 0.0, decision_id="mine")
    assert select(service, tenant, -0.0, decision_id="mine").content == first.content
    assert reward(service, tenant, "mine", 0.0).json()["status"] == "applied"
    assert reward(service, tenant, "mine", -0.0).json()["status"] == "duplicate"


@pytest.mark.parametrize(
    "field, value, most",
    [("buckets", 1024, 9765), ("grid", 10_000, 3355), ("neighbours", 4000, 6500)],
)
def test_tables_that_no_store_or_memory_could_hold_are_refused(
    service: Service, field: str, value: int, most: int
) -> None:
    """Arms times buckets, arms times grid, and the samples to be asked for, are bounded."""
    config = CONFIG | {"neighbours": 1, "patience": 1} | {field: value}
    taken = call(service, "PUT", f"/tenants/{new_name()}", config | {"arms": most})
    refused = call(service, "PUT", f"/tenants/{new_name()}", config | {"arms": most + 1})
    assert taken.status_code == 201
    assert_problem(refused, 422, field, "arms")


@pytest.mark.parametrize("case", EXTREMES)
def test_the_ends_of_what_is_allowed_can_be_played(service: Service, case: str) -> None:
    tenant = create(service, **EXTREMES[case])
    contexts = itertools.cycle([0.0, 1.0, 0.5, 5e-324, 1 - 2**-53])
    values = itertools.cycle([1e6, -1e6, 0.0])
    for context, value in itertools.islice(zip(contexts, values, strict=False), 80):
        decision_id = decide(service, tenant, context)
        assert reward(service, tenant, decision_id, value).status_code == 200
    assert call(service, "GET", f"/tenants/{tenant}/partition").status_code == 200
