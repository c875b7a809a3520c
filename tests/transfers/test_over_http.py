"""Tenants moved over HTTP, from a service on one kind of store to one on the other."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from service.store import keys
from tests.support.audit import audit
from tests.support.engine import new_name
from tests.support.servers import Service, running_service, wait_for

ADMIN_KEY = "adm_4f9c1e7a20b85d63"
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
QUICK: dict[str, Any] = {
    "arms": 8,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.1,
    "neighbours": 1,
    "flag_coefficient": 0.02,
}
TENANTS: dict[str, dict[str, Any]] = {"adaptive": {"arms": 8}, "simulation": QUICK}
CLIENTS = 4


@pytest.fixture(scope="module")
def shared_services(
    both_servers: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Service]]:
    """A service on each kind of store; use `services` instead."""
    folder: Path = tmp_path_factory.mktemp("services")
    with ExitStack() as stack:
        yield {
            kind: stack.enter_context(
                running_service(folder, redis_url=url, workers=2, ZOOMING_ADMIN_KEY=ADMIN_KEY)
            )
            for kind, url in both_servers.items()
        }


@pytest.fixture
def services(
    shared_services: dict[str, Service], both_stores: dict[str, str]
) -> Iterator[dict[str, Service]]:
    """A service on each kind of store, each with two workers, that logs no bug."""
    yield shared_services
    for service in shared_services.values():
        assert service.client.get("/health/ready").status_code == 200
        assert "Traceback" not in service.log_text()


def play(service: Service, tenant: str, key: str, *, context: float, more: str) -> dict[str, Any]:
    """A select with an id of our own."""
    body = {"tenant": tenant, "context": context, "decision_id": more}
    answer = service.client.post("/select", json=body, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    selection: dict[str, Any] = answer.json()
    return selection


def reward(service: Service, tenant: str, key: str, *, decision_id: str, value: float) -> Any:
    """What became of a reward."""
    body = {"tenant": tenant, "decision_id": decision_id, "reward": value}
    answer = service.client.post("/reward", json=body, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def create(service: Service, body: dict[str, Any]) -> tuple[str, str]:
    """A new tenant and its key."""
    name = new_name()
    answer = service.client.put(f"/tenants/{name}", json=body, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    return name, answer.json()["api_key"]


def move(source: Service, tenant: str, target: Service, name: str) -> httpx.Response:
    """Streams the tenant from one service to the other, at no time in memory."""
    with source.client.stream("GET", f"/tenants/{tenant}/export", headers=ADMIN) as file:
        assert file.status_code == 200
        return target.client.post(
            f"/tenants/{name}/import", content=file.iter_bytes(), headers=ADMIN
        )


def counters(service: Service, tenant: str) -> dict[str, Any]:
    """What is counted of the tenant."""
    found: dict[str, Any] = service.client.get(f"/tenants/{tenant}", headers=ADMIN).json()
    return dict(found["counters"])


def keys_in(raw: Any) -> list[bytes]:
    """All keys but the one that tells who closes decisions."""
    return [key for key in raw.scan_iter() if key != keys.CLOSER.encode()]


@pytest.mark.parametrize("source, target", [("redis", "valkey"), ("valkey", "redis")])
@pytest.mark.parametrize("case", TENANTS)
def test_the_same_key_opens_it_and_it_goes_on(
    services: dict[str, Service], case: str, source: str, target: str
) -> None:
    """Decisions that were open are rewarded after the move, and none twice."""
    here, there, chance = services[source], services[target], random.Random(case)
    name, key = create(here, TENANTS[case])
    waiting = []
    for trial in range(120):
        played = play(here, name, key, context=chance.random(), more=f"a-{trial}")
        if trial % 3:
            reward(here, name, key, decision_id=played["decision_id"], value=chance.random())
        else:
            waiting.append(played["decision_id"])
    moved = new_name()
    answer = move(here, name, there, moved)
    assert answer.status_code == 201, answer.text
    assert answer.json()["counters"] == counters(here, name)
    both = [(here, name), (there, moved)]
    for decision_id in waiting:
        value = chance.random()
        first, second = (reward(*one, key, decision_id=decision_id, value=value) for one in both)
        assert first == second
    for trial in range(120):
        x, value = chance.random(), chance.random()
        first, second = (play(*one, key, context=x, more=f"b-{trial}") for one in both)
        assert {**first, "expires_at": ""} == {**second, "expires_at": ""}
        first, second = (reward(*one, key, decision_id=f"b-{trial}", value=value) for one in both)
        assert first == second
    for one in both:
        play(*one, key, context=0.5, more="last")
        applied = [reward(*one, key, decision_id="last", value=1.0)["status"] for _ in range(2)]
        assert applied == ["applied", "duplicate"]
    assert counters(here, name) == counters(there, moved)
    partitions = [
        one.client.get(f"/tenants/{tenant}/partition", headers=ADMIN).json()["balls"]
        for one, tenant in both
    ]
    assert partitions[0] == partitions[1]


def test_a_tenant_is_moved_whole_while_others_play_it(
    services: dict[str, Service], both_stores: dict[str, str]
) -> None:
    """Clients that send again what gets 503 lose nothing; each copy is a tenant at one moment.

    The audit after the test proves of every copy that its counters, records and rankings agree.
    """
    here, there = services["redis"], services["valkey"]
    name, key = create(here, QUICK)
    stop = threading.Event()
    refused: list[int] = []
    acknowledged: list[int] = []

    def client(number: int) -> None:
        chance = random.Random(number)
        with httpx.Client(base_url=here.url, timeout=30) as own:
            own.headers["Authorization"] = f"Bearer {key}"

            def send(path: str, body: dict[str, Any]) -> dict[str, Any]:
                while (answer := own.post(path, json={"tenant": name, **body})).status_code == 503:
                    assert answer.headers["retry-after"] == "1"
                    assert "exported" in answer.json()["title"]
                    refused.append(number)
                assert answer.status_code == 200, answer.text
                return dict(answer.json())

            while not stop.is_set():
                played = send("/select", {"context": chance.random()})
                given = {"decision_id": played["decision_id"], "reward": chance.random()}
                assert send("/reward", given)["status"] == "applied"
                acknowledged.append(number)

    threads = [threading.Thread(target=client, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        copies = []
        for _ in range(8):
            wanted = len(acknowledged) + 20
            wait_for(partial(lambda count: len(acknowledged) > count, wanted), what="traffic")
            known = len(acknowledged)
            copies.append(new_name())
            assert move(here, name, there, copies[-1]).status_code == 201
            assert counters(there, copies[-1])["rewards_applied"] >= known
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert counters(here, name)["rewards_applied"] == len(acknowledged)
    assert refused, "no request met an export"
    assert counters(here, name)["splits"] > 0
    with redis.Redis.from_url(both_stores["valkey"]) as raw:
        assert audit(raw) == len(copies)


def test_a_worker_that_dies_importing_leaves_nothing_for_long(
    both_stores: dict[str, str], tmp_path: Path
) -> None:
    """All keys have a TTL, no tenant is there; what is left, a running service gives back."""
    url = both_stores["valkey"]
    with (
        redis.Redis.from_url(url) as raw,
        running_service(tmp_path, redis_url=url) as service,
    ):
        name = new_name()
        assert service.client.put(f"/tenants/{name}", json=QUICK).status_code == 201
        for trial in range(50):
            played = service.client.post("/select", json={"tenant": name, "context": trial / 50})
            body = {"tenant": name, "decision_id": played.json()["decision_id"], "reward": 0.5}
            service.client.post("/reward", json=body)
        file = service.client.get(f"/tenants/{name}/export").content
        service.client.delete(f"/tenants/{name}")
        assert keys_in(raw) == []
        begun = threading.Event()

        def chunks() -> Iterator[bytes]:
            # Enough lines that some are written before the end is known.
            first, own, some, *_ = file.splitlines(keepends=True)
            yield first + own + 300 * some
            begun.set()
            wait_for(lambda: service.process.poll() is not None, what="the end of the service")

        def upload() -> None:
            with pytest.raises(httpx.TransportError), httpx.Client() as client:
                client.post(f"{service.url}/tenants/copy/import", content=chunks(), timeout=30)

        thread = threading.Thread(target=upload)
        thread.start()
        begun.wait(20)
        wait_for(lambda: len(keys_in(raw)) > 1, what="the beginning of the import")
        service.process.kill()
        thread.join()
        left = [key for key in keys_in(raw) if key != keys.IMPORTS.encode()]
        assert left
        assert all(raw.ttl(key) > 0 for key in left)
        (entry,) = raw.hkeys(keys.IMPORTS)
        raw.hset(keys.IMPORTS, entry, 1)
    with redis.Redis.from_url(url) as raw, running_service(tmp_path, redis_url=url) as service:
        assert service.client.get("/tenants").json() == {"tenants": []}
        wait_for(lambda: keys_in(raw) == [], what="the end of what was left")
        assert service.client.post("/tenants/copy/import", content=file).status_code == 201
        assert json.loads(file.splitlines()[0])["tenant"] == name
