"""Every call, through both clients, against a real service."""

import inspect
from datetime import UTC, datetime, timedelta

import pytest

from service.client import (
    Client,
    Conflict,
    Forbidden,
    Invalid,
    Late,
    NotFound,
    Refused,
    RewardItem,
    SelectItem,
    Unauthenticated,
    calls,
)
from service.decision_ids import issue_time_ms
from tests.client.conftest import NewClient
from tests.support.engine import new_name
from tests.support.servers import Service

COLOURS = ["red", "green", "blue"]


@pytest.fixture
def tenant(client: Client) -> str:
    """A tenant with three arms."""
    name = new_name()
    client.create_tenant(name, arms=COLOURS)
    return name


def test_a_method_shows_the_arguments_of_its_call() -> None:
    """As `help` does."""
    assert str(inspect.signature(Client.reward)).startswith("(self, /, tenant: str, *, decision_id")
    assert Client.reward.__doc__ == calls.reward.__doc__


def test_a_tenant_from_its_creation_to_its_end(client: Client) -> None:
    name = new_name()
    created = client.create_tenant(name, arms=COLOURS, reward_window_seconds=60)
    assert created.api_key
    assert created.config["arms"] == COLOURS
    assert client.create_tenant(name, arms=COLOURS, reward_window_seconds=60).api_key is None
    assert client.tenants().tenants == [name]
    state = client.tenant(name)
    assert abs(state.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert state.config["reward_window_seconds"] == 60
    assert state.counters["rewards_applied"] == 0
    (root,) = client.partition(name).balls
    assert (root.interval, root.phase, root.arms) == ((0.0, 1.0), "flagged", COLOURS)
    client.delete_tenant(name)
    assert client.tenants().tenants == []


def test_a_decision_and_its_reward(client: Client, tenant: str) -> None:
    chosen = client.select(tenant, context=0.42)
    assert chosen.arm in COLOURS
    assert chosen.expires_at > datetime.now(UTC)
    assert client.reward(tenant, decision_id=chosen.decision_id, reward=1.0).status == "applied"
    assert client.reward(tenant, decision_id=chosen.decision_id, reward=1.0).status == "duplicate"
    assert client.tenant(tenant).counters["rewards_applied"] == 1


def test_an_id_made_by_the_client_tells_its_time(client: Client, tenant: str) -> None:
    """So the store finds it as quickly as its own, and needs no pointer to it."""
    issued_ms = issue_time_ms(client.select(tenant, context=0.5).decision_id)
    assert issued_ms is not None
    assert abs(issued_ms / 1000 - datetime.now(UTC).timestamp()) < 60


def test_an_own_id_is_kept(client: Client, tenant: str) -> None:
    chosen = client.select(tenant, context=0.5, decision_id="mine")
    assert chosen.decision_id == "mine"
    assert client.select(tenant, context=0.5, decision_id="mine") == chosen
    with pytest.raises(Conflict, match="made for another context"):
        client.select(tenant, context=0.6, decision_id="mine")


def test_batches(client: Client, tenant: str) -> None:
    """Items keep their order and their ids; each is told by itself what became of it."""
    asked = [SelectItem(context=number / 10) for number in range(5)]
    chosen = client.select_batch(tenant, items=[*asked, SelectItem(context=0.9, decision_id="x")])
    assert client.select_batch(tenant, items=asked).items == chosen.items[:5]
    again = client.select_batch(tenant, items=[SelectItem(context=0.8, decision_id="x")])
    (refused,) = again.items
    assert isinstance(refused, Refused)
    assert (refused.decision_id, refused.status, refused.problem.status) == ("x", "conflict", 409)
    given = [RewardItem(decision_id=item.decision_id, reward=0.5) for item in asked]
    answer = client.reward_batch(
        tenant, items=[*given, given[0], RewardItem(decision_id="y", reward=1)]
    )
    assert [item.status for item in answer.items] == [
        *["applied"] * 5,
        "duplicate",
        "unknown_decision",
    ]
    assert [item.decision_id for item in answer.items[:5]] == [item.decision_id for item in asked]


def test_probe_and_metrics(client: Client, new_client: NewClient, tenant: str) -> None:
    assert client.ready()
    assert f'zooming_trials_total{{phase="active",tenant="{tenant}"}} 0.0' in client.metrics()
    assert not new_client("http://127.0.0.1:1").ready()


def test_refusals_say_what_the_service_says(
    client: Client, new_client: NewClient, service: Service, tenant: str
) -> None:
    """Each status has its error, with the service's own words as its message."""
    with pytest.raises(NotFound, match="create it with PUT /tenants/nobody") as unknown:
        client.select("nobody", context=0.5)
    assert (unknown.value.status, unknown.value.problem and unknown.value.problem.title) == (
        404,
        "Unknown tenant",
    )
    with pytest.raises(Invalid, match="context") as invalid:
        client.select(tenant, context=1.5)
    assert invalid.value.problem is not None
    assert invalid.value.problem.errors is not None
    assert [error.field for error in invalid.value.problem.errors] == ["context"]
    with pytest.raises(Conflict, match="exists with another configuration"):
        client.create_tenant(tenant, arms=7)
    chosen = client.select(tenant, context=0.5)
    client.reward(tenant, decision_id=chosen.decision_id, reward=1.0)
    with pytest.raises(Conflict, match=r"rewarded with 1\.0, which stands"):
        client.reward(tenant, decision_id=chosen.decision_id, reward=0.0)
    with pytest.raises(Unauthenticated, match="Send the admin key"):
        new_client(service.url, key="").tenants()
    with pytest.raises(Forbidden):
        new_client(service.url, key="wrong").tenants()


def test_a_late_reward(client: Client) -> None:
    name = new_name()
    client.create_tenant(name, arms=1, reward_window_seconds=1e-9)
    chosen = client.select(name, context=0.5)
    with pytest.raises(Late, match="within"):
        client.reward(name, decision_id=chosen.decision_id, reward=1.0)


def test_a_tenants_key_opens_its_tenant(
    client: Client, new_client: NewClient, service: Service
) -> None:
    name = new_name()
    key = client.create_tenant(name, arms=2).api_key
    own = new_client(service.url, key=key)
    assert own.select(name, context=0.5).arm in ("0", "1")
    with pytest.raises(Forbidden):
        own.delete_tenant(name)


def test_what_is_no_json_is_not_sent(client: Client, tenant: str) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.select(tenant, context=float("nan"))
    assert client.tenant(tenant).counters["trials_flagged"] == 0


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_elsewhere_is_not_sent(
    client: Client, tenant: str, name: str
) -> None:
    """A path loses such parts on its way: what is left would be the tenant itself."""
    for call in (
        lambda: client.retire_arm(tenant, arm=name),
        lambda: client.revoke_key(tenant, key_id=name),
        lambda: client.decision(tenant, decision_id=name),
        lambda: client.delete_tenant(name),
    ):
        with pytest.raises(ValueError, match="names nothing"):
            call()
    assert client.tenants().tenants == [tenant]
