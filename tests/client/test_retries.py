"""Calls that meet harm on their way: what is done is done once, and counted to prove it."""

import time

import pytest

from service.client import (
    Client,
    Failed,
    NoAnswer,
    NotFound,
    Retry,
    RewardItem,
    SelectItem,
    Unavailable,
    Unreadable,
)
from tests.client.conftest import NewClient
from tests.client.front import Front, Harm
from tests.support.engine import new_name
from tests.support.servers import Service, free_port

AMBIGUOUS = [Harm.UNANSWERED, Harm.UNAVAILABLE_DONE]
PASSING = [Harm.UNHEARD, Harm.UNAVAILABLE, Harm.PROXY_ERROR, *AMBIGUOUS]


@pytest.fixture
def tenant(client: Client) -> str:
    """A tenant whose every reward is counted at once."""
    name = new_name()
    client.create_tenant(name, arms=1)
    return name


def trials(client: Client, tenant: str) -> float:
    """How many decisions were made."""
    counters = client.tenant(tenant).counters
    return counters["trials_active"] + counters["trials_flagged"]


@pytest.mark.parametrize("harm", PASSING)
def test_a_select_that_is_repeated_is_one_decision(
    harmed: Client, front: Front, client: Client, tenant: str, harm: Harm
) -> None:
    front.harm(harm, harm, harm)
    chosen = harmed.select(tenant, context=0.5)
    assert front.seen == ["POST /select"] * 4
    assert trials(client, tenant) == 1
    assert client.select(tenant, context=0.5, decision_id=chosen.decision_id) == chosen


@pytest.mark.parametrize("harm", PASSING)
def test_a_reward_that_is_repeated_counts_once(
    harmed: Client, front: Front, client: Client, tenant: str, harm: Harm
) -> None:
    """That the first try was counted, though its answer was lost, is no error."""
    chosen = client.select(tenant, context=0.5)
    front.harm(harm, harm)
    answer = harmed.reward(tenant, decision_id=chosen.decision_id, reward=1.0)
    assert answer.status == ("duplicate" if harm in AMBIGUOUS else "applied")
    assert front.seen == ["POST /reward"] * 3
    assert client.tenant(tenant).counters["rewards_applied"] == 1


@pytest.mark.parametrize("harm", AMBIGUOUS)
def test_batches_that_are_repeated_count_once(
    harmed: Client, front: Front, client: Client, tenant: str, harm: Harm
) -> None:
    front.harm(harm)
    chosen = harmed.select_batch(tenant, items=[SelectItem(context=0.5) for _ in range(20)])
    assert len(front.seen) == 2
    assert trials(client, tenant) == 20
    given = [RewardItem(decision_id=item.decision_id, reward=0.5) for item in chosen.items]
    front.harm(harm)
    assert {item.status for item in harmed.reward_batch(tenant, items=given).items} == {"duplicate"}
    assert client.tenant(tenant).counters["rewards_applied"] == 20


def test_an_answer_that_never_comes_is_not_waited_for(
    new_client: NewClient, front: Front, client: Client, tenant: str
) -> None:
    """The second try finds what the first one did."""
    front.harm(Harm.STALLED)
    hasty = new_client(front.url, timeout_seconds=0.3)
    hasty.select(tenant, context=0.5)
    assert len(front.seen) == 2
    assert trials(client, tenant) == 1


def test_the_service_says_when_to_come_again(
    harmed: Client, front: Front, client: Client, tenant: str
) -> None:
    """By its Retry-After, which our own wait of milliseconds comes on top of."""
    front.retry_after = "1"
    front.harm(Harm.UNAVAILABLE)
    started = time.monotonic()
    harmed.select(tenant, context=0.5)
    assert 1.0 <= time.monotonic() - started < 5.0
    assert len(front.seen) == 2


@pytest.mark.parametrize("harm", AMBIGUOUS)
def test_a_creation_is_not_repeated(
    harmed: Client, front: Front, client: Client, harm: Harm
) -> None:
    """Its key would be lost in silence; the error says what to do."""
    name = new_name()
    front.harm(harm)
    kind = NoAnswer if harm is Harm.UNANSWERED else Unavailable
    with pytest.raises(kind, match=r"key is shown once\. If .* delete it and create it again"):
        harmed.create_tenant(name, arms=2)
    assert len(front.seen) == 1
    client.delete_tenant(name)
    assert client.create_tenant(name, arms=2).api_key


@pytest.mark.parametrize("harm", PASSING)
def test_a_deletion_is_repeated_until_nothing_is_there(
    harmed: Client, front: Front, client: Client, tenant: str, harm: Harm
) -> None:
    """That the repeat finds nothing to delete is no error; that the first try does, is one."""
    front.harm(harm)
    harmed.delete_tenant(tenant)
    assert len(front.seen) == 2
    assert client.tenants().tenants == []
    front.harm()
    with pytest.raises(NotFound):
        harmed.delete_tenant(tenant)
    assert len(front.seen) == 1


def test_a_refusal_is_final(harmed: Client, front: Front, client: Client, tenant: str) -> None:
    """The same call would be refused again."""
    front.harm()
    with pytest.raises(NotFound):
        harmed.reward(tenant, decision_id="nobody's", reward=1.0)
    assert len(front.seen) == 1


def test_tries_are_bounded_in_number(new_client: NewClient, front: Front) -> None:
    """Then the last failure is told, by the service's words or by what happened."""
    client = new_client(front.url, retry=Retry(tries=3, first_wait_seconds=0.001))
    for harm, kind, text in (
        (Harm.UNAVAILABLE, Unavailable, r"The store is away\."),
        (Harm.PROXY_ERROR, Failed, "Bad gateway"),
        (Harm.UNHEARD, NoAnswer, r"GET /tenants was not answered after 3 tries"),
    ):
        front.harm(*[harm] * 9)
        with pytest.raises(kind, match=text) as error:
            client.tenants()
        assert error.value.status == {Unavailable: 503, Failed: 502, NoAnswer: None}[kind]
        assert len(front.seen) == 3


def test_tries_are_bounded_in_time(new_client: NewClient, front: Front) -> None:
    """Also while the service stalls, however long one try may take."""
    client = new_client(front.url, retry=Retry(seconds=0.5, tries=1000), timeout_seconds=60)
    front.harm(*[Harm.STALLED] * 1000)
    started = time.monotonic()
    with pytest.raises(NoAnswer):
        client.tenants()
    assert time.monotonic() - started < 3.0
    front.retry_after = "3600"
    front.harm(Harm.UNAVAILABLE)
    with pytest.raises(Unavailable):
        client.tenants()
    assert len(front.seen) == 1


def test_where_nobody_listens(new_client: NewClient) -> None:
    """A creation, too, is tried again: it certainly was not done."""
    client = new_client(
        f"http://127.0.0.1:{free_port()}", retry=Retry(tries=4, first_wait_seconds=0)
    )
    with pytest.raises(NoAnswer, match="after 4 tries"):
        client.create_tenant("shop", arms=2)


def test_what_is_not_the_service_is_told(harmed: Client, front: Front, service: Service) -> None:
    front.harm(Harm.STRANGE)
    with pytest.raises(Unreadable, match="Is this its address"):
        harmed.tenants()
    assert len(front.seen) == 1
