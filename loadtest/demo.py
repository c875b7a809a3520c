"""`zooming demo`: the service, the zigzag environment, and what was learned, in a minute."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from loadtest.environments import Environment, zigzag
from loadtest.progress import Progress
from service.client import Client

ARMS = 20
NOISE = 0.05
TENANT = "demo"
COLUMNS = 60
SHADES = " .:-=+*#%@"
START_SECONDS = 60.0


def demo(*, trials: int, port: int, stay: bool) -> None:
    """Runs the demonstration; with `stay`, the service goes on until Ctrl-C."""
    environment = zigzag(ARMS, noise=NOISE)
    with tempfile.TemporaryDirectory(prefix="zooming-demo-") as data, _service(port, data) as url:
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


@contextmanager
def _service(port: int, data: str) -> Iterator[str]:
    """A service of its own process group, ended with everything it started."""
    port = _free_port(port)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--data", data]
    inherited = {name: value for name, value in os.environ.items() if "ZOOMING_" not in name}
    with tempfile.TemporaryFile() as log, Client(url, timeout_seconds=2) as client:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1"], env=inherited, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not client.ready():
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise SystemExit(f"The service did not start:\n{log.read().decode()}")
                time.sleep(0.05)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("No port of 127.0.0.1 is free.")


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()
