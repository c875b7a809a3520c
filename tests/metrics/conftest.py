"""Services whose metrics are looked at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import Service, running_service


@pytest.fixture
def service(store_url: str, tmp_path: Path) -> Iterator[Service]:
    """A service of two workers on an empty store, new to each test: its counters begin at 0."""
    with running_service(tmp_path, redis_url=store_url, workers=2) as running:
        yield running
