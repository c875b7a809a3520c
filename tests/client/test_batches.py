"""Rewards gathered into batches, through both clients."""

import asyncio
from collections.abc import Sequence

import pytest

from service.client import AsyncClient, Client, NoAnswer, Retry, SelectItem
from tests.client.conftest import ADMIN_KEY, NewClient
from tests.client.front import Front, Harm
from tests.support.engine import new_name
from tests.support.servers import Service

SENT = "POST /reward/batch"


@pytest.fixture
def tenant(client: Client) -> str:
    """A tenant whose every reward is counted at once."""
    name = new_name()
    client.create_tenant(name, arms=1)
    return name


def decide(client: Client, tenant: str, count: int) -> Sequence[str]:
    """The ids of so many new decisions."""
    answer = client.select_batch(tenant, items=[SelectItem(context=0.5) for _ in range(count)])
    return [item.decision_id for item in answer.items]


def test_full_batches_go_at_once_and_the_rest_at_the_end(
    harmed: Client, front: Front, client: Client, tenant: str
) -> None:
    ids = decide(client, tenant, 25)
    front.harm()
    with harmed.rewards(tenant, most=10) as rewards:
        for number, decision_id in enumerate(ids):
            rewards.add(decision_id, reward=0.5)
            assert front.seen == [SENT] * ((number + 1) // 10)
    assert front.seen == [SENT] * 3
    assert (rewards.taken, rewards.refused, rewards.waiting) == (25, [], [])
    assert client.tenant(tenant).counters["rewards_applied"] == 25


def test_nothing_to_send_is_not_sent(harmed: Client, front: Front) -> None:
    front.harm()
    with harmed.rewards("nobody") as rewards:
        pass
    assert (front.seen, rewards.taken) == ([], 0)


def test_refused_items_are_told_and_hold_up_no_others(client: Client, tenant: str) -> None:
    """Those that the service does not know or take, and those that are not valid at all."""
    ids = decide(client, tenant, 6)
    client.reward(tenant, decision_id=ids[0], reward=1.0)
    with client.rewards(tenant) as rewards:
        rewards.add(ids[0], reward=0.0)
        rewards.add("unknown", reward=0.5)
        rewards.add(ids[1], reward=0.5)
        rewards.add(ids[2], reward=1e300)
        for decision_id in ids[3:]:
            rewards.add(decision_id, reward=0.5)
        with pytest.raises(ValueError, match="must be a number"):
            rewards.add(ids[2], reward=float("nan"))
    assert rewards.taken == 4
    told = {item.decision_id: (item.status, item.problem.detail) for item in rewards.refused}
    assert {name: status for name, (status, _) in told.items()} == {
        ids[0]: "conflict",
        "unknown": "unknown_decision",
        ids[2]: "invalid",
    }
    assert told[ids[2]][1].startswith("reward: ")
    assert client.tenant(tenant).counters["rewards_applied"] == 5


def test_a_lost_answer_doubles_nothing(
    harmed: Client, front: Front, client: Client, tenant: str
) -> None:
    front.harm(Harm.UNANSWERED, Harm.NONE, Harm.UNAVAILABLE_DONE)
    with harmed.rewards(tenant, most=10) as rewards:
        for decision_id in decide(client, tenant, 20):
            rewards.add(decision_id, reward=0.5)
    assert front.seen == [SENT] * 4
    assert rewards.taken == client.tenant(tenant).counters["rewards_applied"] == 20


def test_what_was_not_answered_waits_to_be_sent_again(
    new_client: NewClient, front: Front, client: Client, tenant: str
) -> None:
    """An error says so; nothing is given up."""
    ids = decide(client, tenant, 5)
    impatient = new_client(front.url, retry=Retry(tries=1))
    front.harm(Harm.UNANSWERED)
    rewards = impatient.rewards(tenant, most=5)
    for decision_id in ids[:4]:
        rewards.add(decision_id, reward=0.5)
    with pytest.raises(NoAnswer), rewards:
        rewards.add(ids[4], reward=0.5)
    assert (len(front.seen), len(rewards.waiting), rewards.taken) == (1, 5, 0)
    rewards.flush()
    assert (len(rewards.waiting), rewards.taken) == (0, 5)
    assert client.tenant(tenant).counters["rewards_applied"] == 5


def test_an_error_of_the_caller_loses_no_reward(client: Client, tenant: str) -> None:
    """What was added before it is sent."""
    (decision_id,) = decide(client, tenant, 1)
    rewards = client.rewards(tenant)
    rewards.add(decision_id, reward=0.5)
    with pytest.raises(KeyError), rewards:
        raise KeyError
    assert client.tenant(tenant).counters["rewards_applied"] == 1


@pytest.mark.parametrize("most", [0, 1001])
def test_a_batch_has_a_size_that_the_service_takes(client: Client, most: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 1000"):
        client.rewards("shop", most=most)


def test_tasks_share_the_batches(service: Service, store_url: str) -> None:
    """Each reward is sent once, also while another task's batch is on its way."""

    async def play() -> None:
        name = new_name()
        async with AsyncClient(service.url, key=ADMIN_KEY) as client:
            await client.create_tenant(name, arms=1)
            async with client.rewards(name, most=7) as rewards:

                async def trial() -> None:
                    chosen = await client.select(name, context=0.5)
                    await rewards.add(chosen.decision_id, reward=0.5)

                await asyncio.gather(*(trial() for _ in range(60)))
            assert rewards.taken == 60
            counters = (await client.tenant(name)).counters
            assert counters["rewards_applied"] == 60
            assert counters["rewards_duplicate"] == 0

    asyncio.run(play())
