"""A service for one purpose: started, and ended with all that it started."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.client import Client

START_SECONDS = 60.0


@contextmanager
def own_service(port: int, data: str) -> Iterator[str]:
    """The URL of a service in a process group of its own, at another port if that one is taken."""
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
