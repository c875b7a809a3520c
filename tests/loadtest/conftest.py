"""A service under test, and load tests run against it as a user would run them."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Service, require_store, running_service

RUN_SECONDS = 60
ADMIN_KEY, METRICS_KEY = "the admin key", "the key of the metrics"


@dataclass
class Run:
    """A `zooming loadtest` that was started; its report goes to a folder."""

    process: subprocess.Popen[str]
    folder: Path

    def end(self) -> tuple[int, str]:
        """The exit code and all that was said, once it has ended by itself."""
        said, _ = self.process.communicate(timeout=RUN_SECONDS)
        return self.process.returncode, said

    def numbers(self) -> dict[str, Any]:
        """The report's numbers."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return found


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two workers on a private store; its client has the admin key."""
    require_store()
    folder = tmp_path_factory.mktemp("service")
    with running_service(
        folder, workers=2, ZOOMING_ADMIN_KEY=ADMIN_KEY, ZOOMING_METRICS_KEY=METRICS_KEY
    ) as running:
        running.wait_for_workers(2)
        running.client.headers["Authorization"] = f"Bearer {ADMIN_KEY}"
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator["Start"]:
    """Starts load tests; those that still run at the end of the test are killed."""
    starting = Start(tmp_path)
    yield starting
    for run in starting.runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


class Start:
    """Called with a URL and flags, it starts a load test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Run] = []

    def __call__(self, url: str, flags: str) -> Run:
        report = self.folder / f"report-{len(self.runs)}"
        command = [sys.executable, "-m", "service", "loadtest", "--url", url]
        environment = {k: v for k, v in os.environ.items() if "ZOOMING_" not in k}
        process = subprocess.Popen(
            [*command, *shlex.split(flags), "--report", str(report)],
            env=environment | {"ZOOMING_ADMIN_KEY": ADMIN_KEY},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that a test can signal the whole group
        )
        self.runs.append(Run(process, report))
        return self.runs[-1]
