"""Clients that go on whatever happens: each sends a request again, unchanged, until it is answered.

What they were answered is kept, and held against the service afterwards: nothing that was
acknowledged may be missing, changed or counted twice.
"""

import json
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from tests.support.engine import new_name
from tests.support.servers import Service, wait_for

ARMS = 6
# A ball fills and splits every few trials.
BUSY: dict[str, Any] = {
    "preset": "simulation",
    "horizon": 10_000,
    "noise": 0.05,
    "neighbours": 1,
    "flag_coefficient": 0.02,
}
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.02
THOUGHT_SECONDS = 0.005  # of a client after each trial, so that others get something done
BROKEN = 0  # stands among the statuses for a connection that broke


def new_tenants(service: Service) -> list[str]:
    """Two new tenants whose arms bear the tenant's name, so that mixed-up answers show."""
    names = [new_name() for _ in range(2)]
    for name in names:
        body = {**BUSY, "arms": [f"{name}-{arm}" for arm in range(ARMS)]}
        httpx.put(f"{service.url}/tenants/{name}", json=body, timeout=30).raise_for_status()
    return names


class WrongAnswer(AssertionError):
    """A client saw what it must never see, or was not answered for too long."""


@dataclass(frozen=True)
class Trial:
    """A decision whose select and reward were both acknowledged."""

    tenant: str
    context: float
    selection: Mapping[str, Any]
    reward: float

    @property
    def select_body(self) -> dict[str, Any]:
        """The select that gets the same answer again."""
        chosen = self.selection["decision_id"]
        return {"tenant": self.tenant, "context": self.context, "decision_id": chosen}

    @property
    def reward_body(self) -> dict[str, Any]:
        """The reward, as it was sent."""
        chosen = self.selection["decision_id"]
        return {"tenant": self.tenant, "decision_id": chosen, "reward": self.reward}


class Client:
    """One kept-alive connection, opened again when it breaks, and insistent."""

    def __init__(self, where: Callable[[], str]) -> None:
        self.statuses: Counter[int] = Counter()
        self._where = where
        self._connection: HTTPConnection | None = None

    def insist(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of 200; after a 503 with Retry-After or a broken connection, tries again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            status, retry_after, content = self._post(path, body)
            self.statuses[status] += 1
            if status == 200:
                answer: dict[str, Any] = json.loads(content)
                return answer
            if status != BROKEN and not (status == 503 and retry_after):
                raise WrongAnswer(f"{path} {body}: {status} {content!r}")
            if time.monotonic() > deadline:
                raise WrongAnswer(f"{path} {body}: no answer for {PATIENCE_SECONDS} s")
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, str | None, bytes]:
        headers = {"Content-Type": "application/json"}
        try:
            if self._connection is None:
                self._connection = HTTPConnection(urlsplit(self._where()).netloc, timeout=30)
            self._connection.request("POST", path, json.dumps(body), headers)
            answer = self._connection.getresponse()
            return answer.status, answer.getheader("Retry-After"), answer.read()
        except (OSError, HTTPException):
            self.close()
            return BROKEN, None, b""


class Load:
    """Some clients that select and reward in turn, from entry to exit.

    Every other client makes its own decision ids. The others take those of the service; a select
    of theirs that is sent again is another decision.
    """

    def __init__(self, url: str, tenants: Sequence[str], *, clients: int = 4) -> None:
        self.url = url
        self.trials: list[Trial] = []
        self._tenants = tenants
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._clients = [Client(lambda: self.url) for _ in range(clients)]
        self._threads = [
            threading.Thread(target=self._run, args=(number, client))
            for number, client in enumerate(self._clients)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._raise_failure()

    @property
    def statuses(self) -> Counter[int]:
        """How many answers of each status there were so far."""
        return sum((client.statuses.copy() for client in self._clients), Counter())

    def wait_for_trials(self, count: int) -> None:
        """Returns when so many more trials have been acknowledged."""
        goal = len(self.trials) + count
        wait_for(
            lambda: self._failure is not None or len(self.trials) >= goal,
            seconds=PATIENCE_SECONDS,
            what=f"{count} more trials",
        )
        self._raise_failure()

    def verify(self, service: Service, *, others: int = 0) -> None:
        """Holds the service's memory against the clients': call it when the load is over.

        `others` is how many selects came from elsewhere, at the most.
        """
        trials = Counter(trial.tenant for trial in self.trials)
        others += self.statuses.total() - self.statuses[200]
        for tenant in self._tenants:
            counters = service.counters(tenant)
            selected = counters["trials_active"] + counters["trials_flagged"]
            assert counters["rewards_applied"] == trials[tenant]
            assert trials[tenant] <= selected <= trials[tenant] + others
        shares = [self.trials[start :: len(self._clients)] for start in range(len(self._clients))]
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(self._repeat, shares))
        for tenant in self._tenants:
            assert service.counters(tenant)["rewards_applied"] == trials[tenant]

    def _repeat(self, trials: Sequence[Trial]) -> None:
        client = Client(lambda: self.url)
        try:
            for trial in trials:
                assert client.insist("/select", trial.select_body) == trial.selection
                assert client.insist("/reward", trial.reward_body)["status"] == "duplicate"
        finally:
            client.close()

    def _run(self, number: int, client: Client) -> None:
        rng = random.Random(number)
        try:
            while not self._stop.is_set():
                tenant, x, reward = rng.choice(self._tenants), rng.random(), rng.random()
                own_id = {"decision_id": secrets.token_hex(8)} if number % 2 else {}
                selection = client.insist("/select", {"tenant": tenant, "context": x, **own_id})
                if not (own_id.items() <= selection.items() and tenant in selection["arm"]):
                    raise WrongAnswer(f"{tenant} {own_id} was answered with {selection}")
                trial = Trial(tenant, x, selection, reward)
                client.insist("/reward", trial.reward_body)
                self.trials.append(trial)
                time.sleep(THOUGHT_SECONDS)
        except BaseException as error:  # noqa: BLE001 - it is raised in the test's own thread
            self._failure = error
        finally:
            client.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
