"""`zooming demo`: the service, the zigzag environment, and what was learned, in a minute."""

import signal
import tempfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from loadtest.environments import Environment, zigzag
from loadtest.own_service import own_service
from loadtest.progress import Progress
from service.client import Client

ARMS = 20
NOISE = 0.05
TENANT = "demo"
COLUMNS = 60
SHADES = " .:-=+*#%@"


def demo(*, trials: int, port: int, stay: bool) -> None:
    """Runs the demonstration; with `stay`, the service goes on until Ctrl-C."""
    environment = zigzag(ARMS, noise=NOISE)
    with (
        tempfile.TemporaryDirectory(prefix="zooming-demo-") as data,
        own_service(port, data) as url,
    ):
        print(f"Service up at {url}; a tenant with {ARMS} arms it is told nothing about.\n")
        with Client(url) as client:
            client.create_tenant(TENANT, arms=ARMS)
            played, means, optimum = _replay(client, environment, trials)
            counters = client.tenant(TENANT).counters
        _report(environment, played, means, optimum, counters)
        if stay:
            print(f"\nThe service goes on at {url} (API: {url}/docs). Ctrl-C ends it.", flush=True)
            _wait_for_interrupt()


def _replay(
    client: Client, environment: Environment, trials: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Contexts and arms played, the mean reward of each play, the optimum at each context."""
    rng = np.random.default_rng(0)
    contexts = rng.random(trials)
    optimum = environment.optimum(contexts)
    played = np.empty((trials, 2))
    means = np.empty(trials)
    progress = Progress(trials, things="trials")
    for trial, x in enumerate(contexts.tolist()):
        chosen = client.select(TENANT, context=x)
        arm = int(chosen.arm)
        reward = environment.reward(rng, x, arm)
        client.reward(TENANT, decision_id=chosen.decision_id, reward=reward)
        played[trial] = x, arm
        means[trial] = environment.means(x)[arm]
        lately = means[max(0, trial + 1 - max(1, trials // 10)) : trial + 1]
        progress.show(trial + 1, f"mean reward lately {lately.mean():.3f}")
    return played, means, optimum


def _report(
    environment: Environment,
    played: NDArray[np.float64],
    means: NDArray[np.float64],
    optimum: NDArray[np.float64],
    counters: Mapping[str, float],
) -> None:
    quarter = max(1, len(means) // 4)
    at_random = environment.means(played[:, 0]).mean()
    print(
        f"\naverage reward        {means.mean():.3f}   (last quarter {means[-quarter:].mean():.3f})"
        f"\na random arm          {at_random:.3f}"
        f"\nthe optimum           {optimum.mean():.3f}"
        f"\nballs                 {counters['active']} active, {counters['flagged']} flagged, "
        f"depth {counters['depth']}, {counters['splits']} splits"
    )
    for title, part in (("first", played[:quarter]), ("last", played[-quarter:])):
        print(f"\nWhich arm is played where, {title} quarter (context to the right, arms upwards):")
        print(_picture(part))


def _picture(played: NDArray[np.float64]) -> str:
    counts, _, _ = np.histogram2d(
        played[:, 1], played[:, 0], bins=(ARMS, COLUMNS), range=((-0.5, ARMS - 0.5), (0, 1))
    )
    shares = counts / np.maximum(1, counts.max(axis=0))
    shade = np.ceil(shares * (len(SHADES) - 1)).astype(int)
    rows = ["".join(SHADES[level] for level in row) for row in shade[::-1]]
    return "\n".join(f"{ARMS - 1 - place:>4} |{row}|" for place, row in enumerate(rows))


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()
