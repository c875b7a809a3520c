"""The connection: steps and plain commands, each within the time limit.

Whatever the server or the network does wrong comes out of here as `StoreUnavailable`; nothing
outside this package knows the client library.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError, ResponseError

from service.errors import StoreUnavailable, StoreUnsuitable
from service.store import scripts

TIME_LIMIT_SECONDS = 3.0
_SOCKET_SECONDS = 2.0
_CONNECTIONS = 64
_OLDEST_VERSION = 7


class Connection:
    """A pool of connections to one server; safe to retry, since every step is idempotent."""

    def __init__(self, url: str) -> None:
        # Any: the library's types do not know that replies are bytes unless decoding is asked for.
        self.client: Any = Redis.from_pool(
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

    async def step(self, step: str, key: str, *args: Any) -> list[Any]:
        """Runs a script; the reply's first item is its status word."""
        async with self.in_time():
            status, *rest = await scripts.call(self.client, step, key=key, args=args)
        return [status.decode(), *rest]

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

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Bounds the time of what is inside, and makes one error of every failure of the store."""
        try:
            async with asyncio.timeout(TIME_LIMIT_SECONDS):
                yield
        except TimeoutError as error:
            raise StoreUnavailable("timeout", "no answer in time") from error
        except ResponseError as error:
            raise StoreUnavailable("refused", str(error)) from error
        except (RedisError, OSError) as error:
            raise StoreUnavailable("unreachable", str(error)) from error
