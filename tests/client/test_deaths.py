"""Store and workers killed under clients that know nothing of it: nothing is lost or doubled."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from service.client import Client
from service.embedded import PrivateStore
from tests.support.engine import new_name
from tests.support.servers import Service, require_store, running_service, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

THREADS = 4
ROUNDS = 2
SOME = 40


class Players:
    """Threads that share a client, and select and reward in turn until they are told to stop."""

    def __init__(self, client: Client, tenant: str) -> None:
        self.rewarded: list[str] = []
        self._client, self._tenant = client, tenant
        self._stop = threading.Event()

    @contextmanager
    def playing(self) -> Iterator[None]:
        """They play as long as the block lasts; what one of them met is raised in the end."""
        with ThreadPoolExecutor(THREADS) as pool:
            players = [pool.submit(self._play) for _ in range(THREADS)]
            try:
                yield
            finally:
                self._stop.set()
            for player in players:
                player.result()

    def play_on(self) -> None:
        """Returns when some more trials are done."""
        goal = len(self.rewarded) + SOME
        wait_for(lambda: len(self.rewarded) >= goal, seconds=60, what="more trials")

    def _play(self) -> None:
        while not self._stop.is_set():
            chosen = self._client.select(self._tenant, context=0.5)
            answer = self._client.reward(self._tenant, decision_id=chosen.decision_id, reward=0.5)
            assert answer.status in ("applied", "duplicate")
            self.rewarded.append(chosen.decision_id)


def wait_for_refusals(service: Service) -> None:
    """Returns when as many requests were answered with 503 as there are threads to send them."""
    seen = service.log_text().count("store unavailable")
    wait_for(lambda: service.log_text().count("store unavailable") >= seen + THREADS)


def test_deaths_are_not_noticed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every select and reward is answered in the end, and each was counted once."""
    require_store()
    store = PrivateStore(tmp_path_factory.mktemp("store"))
    folder = tmp_path_factory.mktemp("service")
    with store, running_service(folder, redis_url=store.url, workers=2) as service:
        tenant, url = new_name(), store.url
        with Client(service.url) as client:
            client.create_tenant(tenant, arms=2)
            players = Players(client, tenant)
            with players.playing():
                for _ in range(ROUNDS):
                    players.play_on()
                    assert store.pid is not None
                    os.kill(store.pid, signal.SIGKILL)
                    store.stop()
                    wait_for_refusals(service)
                    store.start()
                    assert store.url == url
                    players.play_on()
                    os.kill(service.workers()[0], signal.SIGKILL)
                players.play_on()
            counters = client.tenant(tenant).counters
    assert len(set(players.rewarded)) == len(players.rewarded)
    assert counters["trials_active"] + counters["trials_flagged"] == len(players.rewarded)
    assert counters["rewards_applied"] == len(players.rewarded)
