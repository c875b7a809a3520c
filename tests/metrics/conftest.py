"""The service whose metrics are looked at."""

from collections.abc import Iterator

import pytest

from tests.support.servers import Service, lasting_store, running_service


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store for the service that lives as long as the run, and nobody else."""
    with lasting_store(tmp_path_factory.mktemp("store")) as url:
        yield url


@pytest.fixture(scope="session")
def shared_service(
    store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service of two workers for the whole run; use `service` instead."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, redis_url=store_server, workers=2) as running:
        yield running


@pytest.fixture
def service(shared_service: Service, store_url: str) -> Service:
    """A service of two workers on an empty store; it has counted requests and splits before."""
    return shared_service
