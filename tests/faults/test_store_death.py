"""The store killed, stopped, emptied of its steps; clients that go away: all under load."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from service.embedded import STEADY_SECONDS
from tests.support.audit import audit
from tests.support.load import BROKEN, Client, Load, new_tenants
from tests.support.servers import Service, running_service, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

WORKERS = 2
ANSWER_SECONDS = 5.0
GONE = 600
POOLED = 64  # connections that a worker has to the store, at the most


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Workers on a private store; every test leaves them as it found them."""
    with running_service(tmp_path_factory.mktemp("service"), workers=WORKERS) as service:
        service.wait_for_workers(WORKERS)
        yield service


@pytest.fixture
def raw(service: Service) -> Iterator["redis.Redis"]:
    """A plain client on the private store, which is audited in the end."""
    with service.store_client() as client:
        yield client
        audit(client)


def store_of(service: Service) -> int:
    """The process id of the store, once there is one."""
    pid = wait_for(service.store)
    assert isinstance(pid, int)
    return pid


def is_past(moment: float) -> bool:
    """Whether the moment, of the monotonic clock, is over."""
    return time.monotonic() > moment


@contextmanager
def hanging(service: Service) -> Iterator[None]:
    """In here the store neither answers nor dies."""
    pid = store_of(service)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_store_killed_under_load(service: Service, raw: "redis.Redis") -> None:
    """Clients see 200 or 503; whatever they were told was done is done, once."""
    tenants = new_tenants(service)
    with Load(service.url, tenants) as load:
        kills = 0
        # It is back within moments, so it may take some more until a client has met none.
        while kills < 5 or (503 not in load.statuses and kills < 15):
            kills += 1
            # One that dies young is started again after a longer pause each time.
            steady = time.monotonic() + STEADY_SECONDS
            load.wait_for_trials(40)
            wait_for(partial(is_past, steady))
            os.kill(store_of(service), signal.SIGKILL)
        load.wait_for_trials(40)
    assert set(load.statuses) == {200, 503}
    load.verify(service)
    assert sum(service.counters(tenant)["splits"] for tenant in tenants) > 10


def test_store_that_hangs(service: Service, raw: "redis.Redis") -> None:
    """503 in time for everyone, and they are more than there are connections to the store.

    A worker that is replaced meanwhile comes up all the same; all is well when the store goes on.
    """
    tenants = new_tenants(service)
    reads = ["/health/ready", "/tenants", f"/tenants/{tenants[0]}"]

    def ask(number: int) -> tuple[int, str | None, float]:
        connection = HTTPConnection(urlsplit(service.url).netloc, timeout=30)
        started = time.monotonic()
        if number < len(reads):
            connection.request("GET", reads[number])
        else:
            body = {"tenant": tenants[0], "context": 0.5, "decision_id": f"hung-{number}"}
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/select", json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        took = time.monotonic() - started
        connection.close()
        return answer.status, answer.getheader("Retry-After"), took

    with Load(service.url, tenants) as load:
        load.wait_for_trials(20)
        victim = service.workers()[0]
        with hanging(service), ThreadPoolExecutor(2 * POOLED) as pool:
            os.kill(victim, signal.SIGKILL)
            answers = list(pool.map(ask, range(4 * POOLED)))
            wait_for(lambda: "started without the store" in service.log_text())
        load.wait_for_trials(20)
    assert {(status, retry_after) for status, retry_after, _ in answers} == {(503, "1")}
    assert max(took for *_, took in answers) < ANSWER_SECONDS
    assert set(load.statuses) <= {200, 503, BROKEN}
    load.verify(service, others=len(answers))
    assert len(service.workers()) == WORKERS
    assert victim not in service.workers()


def test_flushed_steps_are_not_noticed(service: Service, raw: "redis.Redis") -> None:
    """FUNCTION FLUSH without end: not one answer but 200."""
    done = threading.Event()
    flushes = 0

    def flush() -> None:
        nonlocal flushes
        while not done.is_set():
            raw.function_flush("SYNC")
            flushes += 1

    tenants = new_tenants(service)
    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        with Load(service.url, tenants) as load:
            load.wait_for_trials(200)
    finally:
        done.set()
        flusher.join()
    assert flushes > 200
    assert set(load.statuses) == {200}
    load.verify(service)


def test_clients_that_go_away(service: Service, raw: "redis.Redis") -> None:
    """Hundreds hang up right after sending: the others get their own answers, no connection leaks,
    and what the gone ones asked for is there, or is done when it is asked for again.
    """
    tenants = new_tenants(service)
    where = urlsplit(service.url)

    def body(number: int) -> dict[str, Any]:
        return {"tenant": tenants[number % 2], "context": 0.5, "decision_id": f"gone-{number}"}

    def hang_up(number: int) -> None:
        content = json.dumps(body(number))
        request = (
            f"POST /select HTTP/1.1\r\nHost: {where.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n{content}"
        )
        with socket.create_connection((where.hostname, where.port)) as connection:
            if number % 4 < 2:  # end with a reset instead of an orderly close
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(request.encode())

    numbers = range(GONE)
    with Load(service.url, tenants) as load:
        load.wait_for_trials(20)
        for burst in range(6):
            # In every other burst the store stands still, so that they leave while they wait.
            with hanging(service) if burst % 2 else nullcontext():
                for number in numbers[burst::6]:
                    hang_up(number)
            load.wait_for_trials(20)
    assert set(load.statuses) == {200}
    assert len(raw.client_list()) <= WORKERS * POOLED + 1
    client = Client(lambda: service.url)
    for number in numbers:
        assert client.insist("/select", body(number))["decision_id"] == f"gone-{number}"
    client.close()
    load.verify(service, others=GONE)
    counters = [service.counters(tenant) for tenant in tenants]
    selected = sum(found["trials_active"] + found["trials_flagged"] for found in counters)
    assert selected == len(load.trials) + GONE
