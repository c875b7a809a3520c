"""The stores that tests run on: real servers, audited and emptied after every test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from service import embedded
from service.embedded import PrivateStore
from service.errors import StoreStartError
from tests.support.audit import audit


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a store that lives as long as the run; use `store_url` instead."""
    try:
        embedded.find_server()
    except StoreStartError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no store: {error}")
    # What is tested on it is not durability, so the disk need not be waited for.
    with PrivateStore(tmp_path_factory.mktemp("store"), appendfsync="everysec") as private:
        yield private.url


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


@pytest.fixture
def private_url(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Starts a durable private store for this test alone."""
    with PrivateStore(tmp_path / "private") as private:
        yield lambda: private.url
