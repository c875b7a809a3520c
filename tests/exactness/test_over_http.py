"""Trial for trial, over HTTP, the service plays the same arm in the same ball as the learner.

Every kind of similarity, both presets, both samplings and K from 1 to 200; on one worker, on four,
and with the calls going round robin over two services on one store. Splits are part of it: each run
has at least a dozen.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest.environments import zigzag
from tests.support.engine import HttpClient, replay_over_http
from tests.support.servers import running_service

NOISE = 0.01
DOZEN = 12
# Each call takes the next connection, so that the calls of one trial go to different workers.
CONNECTIONS = 7

quick: dict[str, Any] = {"horizon": 100_000, "noise": NOISE, "split_wait_ms": 60_000}
fifty = zigzag(50, noise=NOISE)
given = {
    "curves": {"kind": "curves", "curves": fifty.curves(101).tolist()},
    "features": {"kind": "features", "features": fifty.features["theta"].reshape(-1, 1).tolist()},
    "none": {"kind": "none"},
}
learned = quick | {"neighbours": 2, "flag_coefficient": 0.05}

TENANTS: dict[str, dict[str, Any]] = {
    "learned": learned | {"arms": 50},
    "sequential": learned | {"arms": 50, "buckets": 4, "sampling": "sequential"},
    "two_hundred": learned | {"arms": 200},
    "paper": quick | {"arms": 50, "preset": "paper", "noise": 1e-3, "buckets": 4},
    "paper_of_two": quick | {"arms": 2, "preset": "paper", "noise": 1e-3, "buckets": 8},
    "one_arm": quick | {"arms": 1, "flag_coefficient": 0.05},
    "curves": quick | {"arms": 50, "flag_coefficient": 0.05, "similarity": given["curves"]},
    "features": quick | {"arms": 50, "flag_coefficient": 0.05, "similarity": given["features"]},
    "none": quick | {"arms": 50, "flag_coefficient": 0.02, "similarity": given["none"]},
}


# How the service is set up, and which tenants are replayed on it: all of them on one worker, and
# on the other two those that differ in what workers hand to each other.
SETUPS = {
    "one worker": list(TENANTS),
    "four workers": ["learned", "two_hundred", "curves", "paper"],
    "two services": ["learned", "sequential", "none", "paper_of_two"],
}


@pytest.fixture(scope="module")
def client(
    request: pytest.FixtureRequest, store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpClient]:
    """A client of the service, set up as the parameter says."""
    folder: Path = tmp_path_factory.mktemp("service")
    workers = 4 if request.param == "four workers" else 1
    services = 2 if request.param == "two services" else 1
    with ExitStack() as stack:
        urls = [
            stack.enter_context(
                running_service(folder, redis_url=store_server, workers=workers)
            ).url
            for _ in range(services)
        ]
        client = HttpClient(urls * CONNECTIONS)
        stack.callback(client.close)
        yield client


def play(client: HttpClient, tenant: str, *, trials: int, seed: int = 0) -> int:
    """Replays the zigzag environment; how many splits there were."""
    body = TENANTS[tenant]
    environment = zigzag(body["arms"], noise=NOISE)
    rng = np.random.default_rng(seed)
    learner = replay_over_http(
        client,
        body,
        trials=trials,
        contexts=lambda: float(rng.random()),
        reward=lambda x, arm: environment.reward(rng, x, arm),
    )
    return sum(ball.phase == "split" for ball in learner.balls)


@pytest.mark.parametrize(
    "client, tenant",
    [(setup, tenant) for setup, tenants in SETUPS.items() for tenant in tenants],
    indirect=["client"],
)
def test_same_arm_same_ball(store_url: str, client: HttpClient, tenant: str) -> None:
    """Two thousand trials each; the first difference ends the test."""
    assert play(client, tenant, trials=2000) >= DOZEN


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("client", SETUPS, indirect=True)
def test_a_hundred_thousand_trials(store_url: str, client: HttpClient) -> None:
    """A whole run of the paper's length, on each set-up."""
    assert play(client, "learned", trials=100_000, seed=1) >= DOZEN
