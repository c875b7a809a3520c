"""Trial for trial, over HTTP, the service plays the same arm in the same ball as the learner.

Every kind of similarity, both presets, both samplings and K from 1 to 200; on one worker, and with
the calls going round robin over the four workers of one service and a second service on the same
store. Splits are part of it: each run has at least a dozen.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import pytest

from loadtest.environments import zigzag
from tests.support.engine import HttpClient, replay_over_http
from tests.support.servers import running_service, wait_for

NOISE = 0.01
DOZEN = 12
# To each service. A call takes the next one, so that the calls of a trial go to different workers;
# the kernel spreads them, and over at least so many workers.
CONNECTIONS = 9
SPREAD = 3
AT_ONCE = 3
# Uvicorn closes a connection that was idle for longer, if it is not told otherwise.
BRIEF_SECONDS = 5

quick: dict[str, Any] = {
    "preset": "simulation",
    "horizon": 100_000,
    "noise": NOISE,
    "split_wait_ms": 60_000,
}
fifty = zigzag(50, noise=NOISE)
given = {
    "curves": {"kind": "curves", "curves": fifty.curves(101).tolist()},
    "features": {"kind": "features", "features": fifty.features["theta"].reshape(-1, 1).tolist()},
    "none": {"kind": "none"},
}
learned = quick | {"neighbours": 2, "flag_coefficient": 0.05}

TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": 50},
    "learned": learned | {"arms": 50},
    "sequential": learned | {"arms": 50, "buckets": 2, "sampling": "sequential"},
    "two_hundred": learned | {"arms": 200},
    "paper": quick | {"arms": 50, "preset": "paper", "noise": 1e-3, "buckets": 4},
    "paper_of_two": quick | {"arms": 2, "preset": "paper", "noise": 1e-3, "buckets": 4},
    "one_arm": quick | {"arms": 1, "flag_coefficient": 0.05},
    "curves": quick | {"arms": 50, "flag_coefficient": 0.05, "similarity": given["curves"]},
    "features": quick | {"arms": 50, "flag_coefficient": 0.05, "similarity": given["features"]},
    "none": quick | {"arms": 50, "flag_coefficient": 0.02, "similarity": given["none"]},
}


@pytest.fixture(scope="module", params=["one worker", "five workers of two services"])
def new_client(
    request: pytest.FixtureRequest, store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], HttpClient]]:
    """Makes clients whose calls take turns between all workers there are."""
    folder: Path = tmp_path_factory.mktemp("service")
    workers = [1] if request.param == "one worker" else [4, 1]
    with ExitStack() as stack:
        services = [
            stack.enter_context(running_service(folder, redis_url=store_server, workers=n))
            for n in workers
        ]

        def spread() -> HttpClient | None:
            """A client whose connections are spread; not so while a worker is starting."""
            client = HttpClient([s.url for s in services for _ in range(CONNECTIONS)])
            held = [len(service.workers_with_connections()) for service in services]
            if all(n >= min(wanted, SPREAD) for n, wanted in zip(held, workers, strict=True)):
                stack.callback(client.close)
                return client
            client.close()
            return None

        yield lambda: cast(HttpClient, wait_for(spread, what="connections spread over the workers"))


LITERAL = {"literal_paper": {"arms": 2, "preset": "paper", "horizon": 100_000, "noise": 1e-3}}


def play(client: HttpClient, tenant: str, *, trials: int, seed: int = 0) -> int:
    """Replays the zigzag environment until there were enough splits; how many there were."""
    body = (TENANTS | LITERAL)[tenant]
    environment = zigzag(body["arms"], noise=NOISE)
    rng = np.random.default_rng(seed)
    learner = replay_over_http(
        client,
        body,
        trials=trials,
        splits=DOZEN,
        contexts=lambda: float(rng.random()),
        reward=lambda x, arm: environment.reward(rng, x, arm),
    )
    return int(learner.splits)


@pytest.mark.timeout(300)
def test_same_arm_same_ball(store_url: str, new_client: Callable[[], HttpClient]) -> None:
    """Some tenants at a time; the first difference ends it. A connection may be idle meanwhile."""
    started, idle = time.monotonic(), new_client()
    clients: SimpleQueue[HttpClient] = SimpleQueue()

    def play_next(tenant: str) -> int:
        client = clients.get()
        try:
            return play(client, tenant, trials=500)
        finally:
            clients.put(client)

    for _ in range(AT_ONCE):
        clients.put(new_client())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        splits = dict(zip(TENANTS, pool.map(play_next, TENANTS), strict=True))
    assert min(splits.values()) >= DOZEN, splits
    assert time.monotonic() - started > BRIEF_SECONDS
    assert len(idle.call("GET", "/tenants")["tenants"]) == len(TENANTS)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tenant", ["learned", "literal_paper"])
def test_a_hundred_thousand_trials(
    store_url: str, new_client: Callable[[], HttpClient], tenant: str
) -> None:
    """A whole run of the paper's length, and the paper's 64 buckets with nothing overridden."""
    assert play(new_client(), tenant, trials=100_000, seed=1) >= DOZEN
