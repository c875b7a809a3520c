"""A real Prometheus for tests, which scrapes services every second; ended by process id."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from tests.support.servers import START_SECONDS, free_port, wait_for

JOB = "zooming"


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    client: httpx.Client

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression gives now: each its `metric` and its `value`."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the HTTP API; an error fails the test."""
        answer = self.client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", f"{parameters}: {answer['error']}"
        return answer["data"]


@contextmanager
def running_prometheus(
    program: str, *, folder: Path, targets: Sequence[str], rules: Path
) -> Iterator[Prometheus]:
    """The program on a free port, set to scrape the services at these URLs."""
    port = free_port()
    hosts = [urlsplit(target).netloc for target in targets]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": hosts}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    flags = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *flags], stdout=output, stderr=output, start_new_session=True
        )
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_for(ready, seconds=START_SECONDS, what="a ready Prometheus")
        yield Prometheus(client)
    finally:
        client.close()
        process.terminate()
        process.wait(30)
