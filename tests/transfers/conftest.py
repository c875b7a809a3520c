"""One store of each kind, both there at the same time; what a test leaves on them is audited."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from service.embedded import PrivateStore
from tests.support.audit import audit

KINDS = ("redis", "valkey")


@pytest.fixture(scope="session")
def both_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The URLs of a Redis and a Valkey; use `both_stores` instead."""
    found = shutil.which("redis-server")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no redis-server in PATH")
    urls = {}
    with ExitStack() as stack:
        for kind in KINDS:
            folder: Path = tmp_path_factory.mktemp(kind)
            programs = folder / "bin"
            programs.mkdir()
            if kind == "redis":
                (programs / "redis-server").symlink_to(found)
            private = PrivateStore(folder / "data", appendfsync="everysec")
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PATH", str(programs))
                urls[kind] = stack.enter_context(private).url
        yield urls


@pytest.fixture
def both_stores(both_servers: dict[str, str]) -> Iterator[dict[str, str]]:
    """The URLs of an empty Redis and an empty Valkey."""
    for kind, url in both_servers.items():
        with redis.Redis.from_url(url) as client:
            assert ("valkey_version" in client.info("server")) == (kind == "valkey")
    yield both_servers
    clients = [redis.Redis.from_url(url) for url in both_servers.values()]
    try:
        for client in clients:
            audit(client)
    finally:
        for client in clients:
            client.flushall()
            client.close()
