"""The services that these tests call, and both clients behind one face."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

from service.client import AsyncClient, AsyncRewardBatches, Client, Retry
from tests.client.front import Front
from tests.support.servers import Service, lasting_store, running_service

ADMIN_KEY = "adm_5d21c8b7e0f34a96"
# Waits are short, and there are enough of them for every harm that a test plans.
QUICK = Retry(first_wait_seconds=0.001)

NewClient = Callable[..., Client]


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store for the services that live as long as the run, and nobody else."""
    with lasting_store(tmp_path_factory.mktemp("store")) as url:
        yield url


@pytest.fixture(scope="session")
def shared_service(
    store_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service with an admin key for the whole run; use `service` instead."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, redis_url=store_server, ZOOMING_ADMIN_KEY=ADMIN_KEY) as running:
        running.client.headers["Authorization"] = f"Bearer {ADMIN_KEY}"
        yield running


@pytest.fixture
def service(shared_service: Service, store_url: str) -> Iterator[Service]:
    """A service with an admin key; it lives on after the test, and had no bug to log."""
    yield shared_service
    assert shared_service.client.get("/health/ready").status_code == 200
    assert "unexpected error" not in shared_service.log_text()


@pytest.fixture
def front(service: Service) -> Iterator[Front]:
    """A front before the service that does harm as told."""
    with Front(service).standing() as standing:
        yield standing


@pytest.fixture(params=["sync", "async"])
def new_client(request: pytest.FixtureRequest) -> Iterator[NewClient]:
    """Makes clients of one of the two kinds, closed in the end; both look like `Client`."""
    made: list[Client] = []
    with asyncio.Runner() as runner:

        def new(url: str, *, key: str = ADMIN_KEY, retry: Retry = QUICK, **more: Any) -> Client:
            if request.param == "sync":
                client = Client(url, key=key, retry=retry, **more)
            else:
                waited = Waiting(AsyncClient(url, key=key, retry=retry, **more), runner)
                client = cast(Client, waited)
            made.append(client)
            return client

        yield new
        for client in made:
            client.close()


@pytest.fixture
def client(new_client: NewClient, service: Service) -> Client:
    """A client with the admin key, right at the service."""
    return new_client(service.url)


@pytest.fixture
def harmed(new_client: NewClient, front: Front) -> Client:
    """A client with the admin key, behind the front."""
    return new_client(front.url)


class Waiting:
    """Something asynchronous with a synchronous face: whatever is awaited is waited for."""

    def __init__(self, inner: Any, runner: asyncio.Runner) -> None:
        self._inner, self._runner = inner, runner

    def __enter__(self) -> "Waiting":
        self._runner.run(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._inner.__aexit__(*error))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return self._waiting(value) if callable(value) else value

    def _waiting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*args: Any, **named: Any) -> Any:
            found = method(*args, **named)
            if inspect.iscoroutine(found):
                return self._runner.run(found)
            if isinstance(found, AsyncRewardBatches):
                return Waiting(found, self._runner)
            if inspect.isasyncgen(found):
                return self._iterate(found)
            return found

        return wait

    def _iterate(self, found: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._runner.run(anext(found))  # type: ignore[arg-type]  # a coroutine
            except StopAsyncIteration:
                return
