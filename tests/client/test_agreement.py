"""The client and the API know the same: every route, field and setting of one has the other's."""

from dataclasses import MISSING, fields
from typing import Any
from urllib.parse import unquote

import pytest

from service.api import change_schemas, decision_schemas, schemas
from service.app import create_app
from service.client import AsyncClient, Client, RewardItem, SelectItem, TenantConfig, answers, calls
from service.settings import Settings

TENANT, DECISION = "{tenant}", "{decision_id}"
CALLS: dict[str, calls.Call[Any]] = {
    "select": calls.select(TENANT, context=0.5, eligible=["red"], n=2),
    "reward": calls.reward(TENANT, decision_id=DECISION, reward=1.0),
    "select_batch": calls.select_batch(TENANT, items=[SelectItem(context=0.5)]),
    "reward_batch": calls.reward_batch(
        TENANT, items=[RewardItem(decision_id=DECISION, reward=1.0)]
    ),
    "decision": calls.decision(TENANT, decision_id=DECISION),
    "censor": calls.censor(TENANT, decision_id=DECISION),
    "create_tenant": calls.create_tenant(TENANT, arms=3),
    "tenants": calls.tenants(),
    "tenant": calls.tenant(TENANT),
    "update_tenant": calls.update_tenant(TENANT, split_wait_ms=5),
    "delete_tenant": calls.delete_tenant(TENANT),
    "partition": calls.partition(TENANT),
    "arms": calls.arms(TENANT),
    "add_arm": calls.add_arm(TENANT, arm="{arm}"),
    "pause_arm": calls.pause_arm(TENANT, arm="{arm}"),
    "resume_arm": calls.resume_arm(TENANT, arm="{arm}"),
    "retire_arm": calls.retire_arm(TENANT, arm="{arm}"),
    "new_key": calls.new_key(TENANT, expires_in_seconds=60),
    "revoke_key": calls.revoke_key(TENANT, key_id="{key_id}"),
    "log": calls.log(TENANT),
    "export_tenant": calls.export_tenant(TENANT),
    "import_tenant": calls.import_tenant(TENANT),
    "metrics": calls.metrics(),
    "ready": calls.ready(),
}
OPERATIONS = {
    f"{method.upper()} {path}"
    for path, methods in create_app(Settings()).openapi()["paths"].items()
    for method in methods
} - {"GET /health/live"}  # of use to whoever restarts the process alone
ANSWERS = [
    (answers.Problem, schemas.Problem),
    (answers.FieldError, schemas.FieldError),
    (answers.Selection, decision_schemas.Selection),
    (answers.Selections, decision_schemas.Selections),
    (answers.RewardAnswer, decision_schemas.RewardAnswer),
    (answers.Rewarded, decision_schemas.Rewarded),
    (answers.Rewards, decision_schemas.Rewards),
    (answers.Refused, decision_schemas.NotSelected),
    (answers.Refused, decision_schemas.NotRewarded),
    (answers.TenantCreated, schemas.TenantCreated),
    (answers.TenantList, schemas.TenantList),
    (answers.TenantState, schemas.TenantState),
    (answers.Key, schemas.KeyState),
    (answers.NewKey, change_schemas.KeyCreated),
    (answers.Decision, decision_schemas.DecisionState),
    (answers.Censored, decision_schemas.Censored),
    (answers.Arms, schemas.ArmList),
    (answers.Arm, schemas.Arm),
    (answers.Ball, schemas.Ball),
    (answers.Partition, schemas.Partition),
]


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_the_client_has_a_call_for_every_route(operation: str) -> None:
    """By the route's method and path."""
    assert operation in {f"{call.method} {unquote(call.path)}" for call in CALLS.values()}


@pytest.mark.parametrize("name", CALLS)
def test_both_clients_have_every_call(name: str) -> None:
    """By its name."""
    assert callable(getattr(Client, name))
    assert callable(getattr(AsyncClient, name))


@pytest.mark.parametrize("ours, theirs", ANSWERS)
def test_an_answer_has_the_fields_of_the_api(ours: Any, theirs: Any) -> None:
    """All of them; what the API does not say may be left out."""
    needed = {f.name for f in fields(ours) if f.default is f.default_factory is MISSING}
    assert needed <= set(theirs.model_fields) <= {f.name for f in fields(ours)}


@pytest.mark.parametrize("field", schemas.TenantConfig.model_fields)
def test_a_tenants_configuration_has_every_field(field: str) -> None:
    """By its name."""
    assert field in TenantConfig.__optional_keys__ | TenantConfig.__required_keys__


def test_names_in_paths_are_quoted() -> None:
    """An arm may be called anything."""
    assert (
        calls.add_arm("shop", arm="50 % off/now?").path
        == "/tenants/shop/arms/50%20%25%20off%2Fnow%3F"
    )
