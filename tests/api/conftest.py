"""The services that these tests call: shared by all of them, on a store that each finds empty."""

from collections.abc import Iterator

import pytest

from service.embedded import PrivateStore
from tests.api.calls import ADMIN_KEY, MAX_BODY_BYTES, create
from tests.support.servers import Service, lasting_store, running_service


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store for the services that live as long as the run, and nobody else."""
    with lasting_store(tmp_path_factory.mktemp("store")) as url:
        yield url


@pytest.fixture(scope="session")
def shared_service(
    store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service for the whole run; use `service` instead."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, redis_url=store_server) as running:
        yield running


@pytest.fixture(scope="session")
def shared_twin(store_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A second service for the whole run; use `twin` instead."""
    folder = tmp_path_factory.mktemp("twin")
    with running_service(folder, redis_url=store_server) as running:
        yield running


@pytest.fixture(scope="session")
def shared_guarded(
    store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service with an admin key for the whole run; use `guarded` instead."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_service(
        folder,
        redis_url=store_server,
        ZOOMING_ADMIN_KEY=ADMIN_KEY,
        ZOOMING_MAX_BODY_BYTES=str(MAX_BODY_BYTES),
    ) as running:
        yield running


@pytest.fixture(scope="session")
def shared_guarded_twin(
    store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A second service with the same admin key for the whole run; use `guarded_twin` instead."""
    folder = tmp_path_factory.mktemp("guarded-twin")
    with running_service(folder, redis_url=store_server, ZOOMING_ADMIN_KEY=ADMIN_KEY) as running:
        yield running


@pytest.fixture
def service(shared_service: Service, store_url: str) -> Iterator[Service]:
    """A service without an admin key; it lives on after the test, and had no bug to log."""
    yield shared_service
    check_alive(shared_service)


@pytest.fixture
def twin(shared_twin: Service, store_url: str) -> Iterator[Service]:
    """A second service on the same store."""
    yield shared_twin
    check_alive(shared_twin)


@pytest.fixture
def guarded(shared_guarded: Service, store_url: str) -> Iterator[Service]:
    """A service with an admin key that takes small bodies only."""
    yield shared_guarded
    check_alive(shared_guarded)


@pytest.fixture
def guarded_twin(shared_guarded_twin: Service, store_url: str) -> Iterator[Service]:
    """A second service with that admin key on the same store."""
    yield shared_guarded_twin
    check_alive(shared_guarded_twin)


@pytest.fixture(scope="session")
def storeless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with an admin key whose store went away; it knows the tenant `shop`."""
    folder = tmp_path_factory.mktemp("storeless")
    with PrivateStore(folder / "store") as private:
        running = running_service(folder, redis_url=private.url, ZOOMING_ADMIN_KEY=ADMIN_KEY)
        with running as service:
            create(service, "shop", key=ADMIN_KEY)
            private.stop()
            yield service


def check_alive(service: Service) -> None:
    """The service answers, and never met an error that it did not expect."""
    assert service.client.get("/health/ready").status_code == 200
    assert "unexpected error" not in service.log_text()
    assert "Traceback" not in service.log_text()
