"""The stores that tests run on: real servers, audited and emptied after every test."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from service import embedded
from tests.support.audit import audit
from tests.support.servers import lasting_store


def pytest_configure() -> None:
    """Ctrl-C must end what tests start, also in a job of a script, where it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a store that lives as long as the run; use `store_url` instead.

    No service does: it would close decisions there all the time.
    """
    with lasting_store(tmp_path_factory.mktemp("store")) as url:
        yield url


@pytest.fixture
def store_url(store_server: str) -> Iterator[str]:
    """The URL of an empty store; what the test leaves there is audited."""
    yield store_server
    client = redis.Redis.from_url(store_server)
    try:
        audit(client)
    finally:
        client.flushall()
        client.close()


@pytest.fixture
def raw(store_url: str) -> Iterator["redis.Redis"]:
    """A plain client on the store, to look behind the scenes."""
    client = redis.Redis.from_url(store_url)
    yield client
    client.close()


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server that a private store finds: PATH holds Redis alone, or nothing at all."""
    programs = tmp_path / "bin"
    programs.mkdir()
    if request.param == "redis":
        found = shutil.which("redis-server")
        if found is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)("no redis-server in PATH")
        (programs / "redis-server").symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    assert request.param in embedded.find_server().name
    return embedded.find_server()
