"""The connection: steps and plain commands, each within the time limit.

Whatever the server or the network does wrong comes out of here as `StoreUnavailable`; nothing
outside this package knows the client library.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError, ResponseError

from service.errors import StoreUnavailable, StoreUnsuitable
from service.store import steps
from service.store.client import FunctionClient

TIME_LIMIT_SECONDS = 3.0
_SOCKET_SECONDS = 2.0
_CONNECTIONS = 64
_OLDEST_VERSION = 7


class Observer(Protocol):
    """Who wants to know how the store is doing."""

    def step_took(self, step: str, seconds: float) -> None:
        """A step was answered."""

    def store_failed(self, kind: str) -> None:
        """A call was not answered, or was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The server's memory, and when it has its writes on disk.

    `durability` is the server's `appendfsync`, `off` without an append-only file, or `unknown`.
    """

    memory_bytes: int
    memory_limit_bytes: int
    durability: str


class Connection:
    """A pool of connections to one server; safe to retry, since every step is idempotent."""

    def __init__(self, url: str, *, observer: Observer | None = None) -> None:
        self._observer = observer
        # Any: the library's types do not know that replies are bytes unless decoding is asked for.
        self.client: Any = FunctionClient.from_pool(
            BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=_SOCKET_SECONDS,
                protocol=2,
                # `in_time` is the limit. A second one in the library may swallow its cancellation
                # (Python 3.11's wait_for), and then all retries run.
                socket_timeout=None,
                socket_connect_timeout=_SOCKET_SECONDS,
                retry=Retry(ExponentialWithJitterBackoff(base=0.01, cap=0.3), retries=8),
            )
        )

    async def close(self) -> None:
        """Gives the connections back."""
        await self.client.aclose()

    async def step(self, step: str, key: str, *args: Any, rule: str = steps.RULES[0]) -> list[Any]:
        """Runs a step, with the rule of the tenant's preset; the reply begins with a status."""
        started = time.perf_counter()
        async with self.in_time():
            status, *rest = await steps.call(self.client, step, rule=rule, key=key, args=args)
        self._observe(step, started)
        return [status.decode(), *rest]

    async def same_step(
        self, step: str, calls: Sequence[tuple[Any, ...]], *, rule: str = steps.RULES[0]
    ) -> list[list[Any]]:
        """Runs a step once for each key and its arguments, in one round trip."""
        started = time.perf_counter()
        async with self.in_time():
            replies = await steps.call_all(self.client, step, calls, rule=rule)
        self._observe(step, started)
        return [[status.decode(), *rest] for status, *rest in replies]

    async def server(self) -> ServerState:
        """How the server is doing."""
        async with self.in_time():
            memory = await self.client.info("memory")
            persistence = await self.client.info("persistence")
            try:
                fsync = (await self.client.config_get("appendfsync"))["appendfsync"]
            except (ResponseError, KeyError):
                fsync = "unknown"  # a hosted server may hide it
        return ServerState(
            memory_bytes=memory["used_memory"],
            memory_limit_bytes=memory["maxmemory"] or memory.get("total_system_memory", 0),
            durability=fsync if persistence["aof_enabled"] else "off",
        )

    async def verify(self) -> None:
        """Raises `StoreUnsuitable` for a server that is too old or evicts keys."""
        async with self.in_time():
            server = await self.client.info("server")
            memory = await self.client.info("memory")
        version = str(server.get("valkey_version") or server["redis_version"])
        if int(version.partition(".")[0]) < _OLDEST_VERSION:
            raise StoreUnsuitable(
                f"The store is version {version}; Redis 7 or newer, or Valkey, is needed."
            )
        policy = memory.get("maxmemory_policy", "unknown")
        if policy != "noeviction":
            raise StoreUnsuitable(
                f"The store's maxmemory-policy is '{policy}': it would drop state when memory runs "
                "short. Set it to 'noeviction'."
            )

    async def install(self) -> None:
        """Gives the server the steps as functions."""
        async with self.in_time():
            await steps.install(self.client)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Bounds the time of what is inside, and makes one error of every failure of the store."""
        try:
            async with asyncio.timeout(TIME_LIMIT_SECONDS):
                yield
        except TimeoutError as error:
            raise self._unavailable("timeout", "no answer in time") from error
        except ResponseError as error:
            raise self._unavailable("refused", str(error)) from error
        except (RedisError, OSError) as error:
            raise self._unavailable("unreachable", str(error)) from error

    def _observe(self, step: str, started: float) -> None:
        if self._observer is not None:
            self._observer.step_took(step, time.perf_counter() - started)

    def _unavailable(self, kind: str, reason: str) -> StoreUnavailable:
        if self._observer is not None:
            self._observer.store_failed(kind)
        return StoreUnavailable(kind, reason)
