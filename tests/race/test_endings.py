"""However many clients, workers and closers are at it, each decision ends in just one way."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import redis

from service.store import Wanted, new_decision_id
from service.store.keys import CLOSER
from tests.support.audit import audit
from tests.support.engine import Engine, engine, new_name
from tests.support.servers import Service, running_service, wait_for

WORKERS = 4
DEFAULT = 0.25
BODIES: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": 6},
    "simulation": {
        **{"arms": 6, "preset": "simulation", "horizon": 10_000, "noise": 0.05},
        **{"neighbours": 1, "flag_coefficient": 0.02},
    },
}
CLIENTS, EACH = 8, 30


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Four workers on a private store."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, workers=WORKERS, ZOOMING_APPENDFSYNC="everysec") as running:
        running.wait_for_workers(WORKERS)
        yield running
        assert "Traceback" not in running.log_text()


@pytest.fixture
def raw(service: Service) -> Iterator["redis.Redis"]:
    """A plain client on the private store, which is audited in the end."""
    with service.store_client() as client:
        yield client
        assert audit(client)


def create(service: Service, preset: str, **more: Any) -> str:
    """A new tenant with a short window."""
    name, body = new_name(), BODIES[preset] | {"reward_window_seconds": 1.5} | more
    service.client.put(f"/tenants/{name}", json=body).raise_for_status()
    return name


def state_of(client: httpx.Client, tenant: str, decision_id: str) -> str:
    """What has become of a decision."""
    found = client.get(f"/decisions/{tenant}/{decision_id}").raise_for_status().json()
    return str(found["state"])


@pytest.mark.parametrize("preset", BODIES)
def test_every_decision_is_defaulted_once(
    service: Service, raw: "redis.Redis", preset: str
) -> None:
    """By whichever workers: the key that leaves it to one of them is taken away all the time."""
    tenant = create(service, preset, default_reward=DEFAULT)
    items = [{"context": n / 400, "n": 2} for n in range(200)]
    service.client.post("/select/batch", json={"tenant": tenant, "items": items})
    ends_at = time.time() + 1.5

    def closed() -> bool:
        raw.delete(CLOSER)
        return service.counters(tenant)["rewards_defaulted"] >= 400

    wait_for(closed, what="all defaults")
    assert time.time() - ends_at < 10
    counters = service.counters(tenant)
    assert counters["rewards_defaulted"] == counters["decisions_defaulted"] == 400
    assert counters["reward_sum"] == 400 * DEFAULT
    assert (counters["decisions_open"], counters["decisions_expired"]) == (0, 0)


def one_client(url: str, tenants: list[str], seed: int) -> list[tuple[str, str, str]]:
    """Tenant, id and expected end of each of its decisions."""
    chance = random.Random(seed)
    ends = []
    with httpx.Client(base_url=url, timeout=30) as client, ThreadPoolExecutor(3) as pool:

        def do(action: str, tenant: str, decision_id: str) -> str:
            if action == "censor":
                answer = client.post(f"/decisions/{tenant}/{decision_id}/censor")
                return "censored" if answer.status_code == 200 else ""
            body = {"tenant": tenant, "decision_id": decision_id, "reward": chance.random()}
            answer = client.post("/reward", json=body)
            assert answer.status_code in (200, 409, 410), answer.text
            applied = answer.status_code == 200 and answer.json()["status"] == "applied"
            return "rewarded" if applied else ""

        for _ in range(EACH):
            tenant = chance.choice(tenants)
            body = {"tenant": tenant, "context": chance.random(), "n": 2}
            selection = client.post("/select", json=body).raise_for_status().json()
            for choice in selection["ranking"]:
                decision_id = choice["decision_id"]
                actions = chance.choice([[], ["reward"], ["censor"], ["reward", "censor"] * 2])
                found = pool.map(do, actions, [tenant] * 4, [decision_id] * 4)
                outcomes = [outcome for outcome in found if outcome]
                # The same censoring again is answered alike; a reward is applied once.
                assert len(set(outcomes)) <= 1, outcomes
                assert outcomes.count("rewarded") <= 1
                ends.append((tenant, decision_id, outcomes[0] if outcomes else "defaulted"))
    return ends


def test_many_clients_reward_and_censor_while_windows_close(
    service: Service, raw: "redis.Redis"
) -> None:
    """What each client was told is what became of its decisions, and what was counted."""
    tenants = [create(service, preset, default_reward=DEFAULT) for preset in BODIES]
    with ThreadPoolExecutor(CLIENTS) as pool:
        runs = [pool.submit(one_client, service.url, tenants, seed) for seed in range(CLIENTS)]
        ends = [end for run in runs for end in run.result()]
    expected = {tenant: Counter(e for t, _, e in ends if t == tenant) for tenant in tenants}

    def all_closed() -> bool:
        return all(
            service.counters(tenant)["rewards_defaulted"] >= counts["defaulted"]
            for tenant, counts in expected.items()
        )

    wait_for(all_closed, what="the end of all windows")
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = pool.map(lambda end: state_of(service.client, *end[:2]), ends)
        assert [(*end[:2], state) for end, state in zip(ends, found, strict=True)] == ends
    assert len(set(ends)) == CLIENTS * EACH * 2
    for tenant, counts in expected.items():
        counters = service.counters(tenant)
        assert {state: counters[f"decisions_{state}"] for state in counts} == counts
        assert (counters["decisions_open"], counters["decisions_expired"]) == (0, 0)
        assert counters["rewards_applied"] == counts["rewarded"]
        assert counters["rewards_defaulted"] == counts["defaulted"]


@pytest.mark.parametrize("default", [None, DEFAULT])
@pytest.mark.parametrize("preset", BODIES)
def test_a_reward_at_the_end_of_its_window_counts_or_its_default_does(
    store_url: str, preset: str, default: float | None
) -> None:
    """The clocks of hosts differ: closers are already there when rewards are still in time."""
    body = BODIES[preset] | {"reward_window_seconds": 1, "default_reward": default}

    async def close(made: Engine, now_ms: int) -> None:
        slot, cursor, more = "", "0", True
        while more:
            closed = await made.store.decisions.close(
                made.tenant, now_ms=now_ms, slot=slot, cursor=cursor
            )
            slot, cursor, more = closed.slot, closed.cursor, closed.more

    async def run() -> None:
        async with engine(store_url, body) as made:
            now_ms = made.clock[0]
            calls = [
                (made.tenant, Wanted(decision_id=new_decision_id(now_ms), x=n / 200))
                for n in range(200)
            ]
            await made.store.select_all(calls, now_ms=now_ms)
            ids = [wanted.decision_id for _, wanted in calls]
            rewards = [
                made.store.reward(made.tenant, decision_id=one, reward=1.0, now_ms=now_ms + 1000)
                for one in ids
            ]
            over_ms = now_ms + 1000 + made.tenant.slot_ms
            closers = [close(made, over_ms) for _ in range(3)]
            # The first are in time for sure, the last are late; between them it is a race.
            first = await asyncio.gather(*rewards[:40])
            raced = await asyncio.gather(*closers, *rewards[40:160])
            last = await asyncio.gather(*rewards[160:])
            answers = [*first, *filter(None, raced), *last]
            statuses = [answer.status for answer in answers]
            assert set(statuses) == {"applied", "late"}
            states = []
            for decision_id in ids:
                read = await made.store.decisions.read(made.tenant, decision_id, now_ms=over_ms)
                assert read is not None
                states.append(read[0].state)
            other = "expired" if default is None else "defaulted"
            assert states == ["rewarded" if s == "applied" else other for s in statuses]
            stats = await made.store.directory.stats(made.tenant, now_ms=over_ms)
            late = statuses.count("late")
            assert stats.reward_sum == 200 - late + late * (default or 0)

    asyncio.run(run())
