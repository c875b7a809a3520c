"""Whatever a key holds comes back the same, from either kind of server on the other."""

import asyncio
import random
from typing import Any

import pytest
import redis

from service.store import portions
from service.store.connection import Connection
from service.store.portions import Portion

SCRATCH = "scratch:"
HOUR_MS = 3_600_000
NUMBERS = [0.1, -0.0, 5e-324, 1 / 3, -2.5e-308, 1.7976931348623157e308, 2.0**53 + 2, float("inf")]


def fill(client: Any, chance: random.Random) -> None:
    """Keys of all types: tiny ones, and ones of many portions."""

    def some(count: int) -> list[bytes]:
        return [chance.randbytes(chance.randrange(1, 40)) for _ in range(count)]

    for size in (1, 5, 1 << 16, (1 << 16) + 1, 300_000):
        client.set(f"{SCRATCH}string:{size}", chance.randbytes(size))
    for count in (1, 100, 500, 2345):
        client.hset(f"{SCRATCH}hash:{count}", mapping=dict(zip(some(count), some(count))))  # noqa: B905
        client.sadd(f"{SCRATCH}set:{count}", *some(count))
        client.rpush(f"{SCRATCH}list:{count}", *some(count))
        scores = [*NUMBERS, *(chance.gauss(0, 1e3) for _ in range(count))]
        client.zadd(f"{SCRATCH}zset:{count}", dict(zip(some(count), scores)))  # noqa: B905
        for number in range(count):
            fields = {b"at": str(number), chance.randbytes(3): chance.randbytes(9)}
            client.xadd(f"{SCRATCH}stream:{count}", fields, id=f"{5 + number // 3}-{number}")
    client.sadd(f"{SCRATCH}numbers", *range(400))
    client.pexpire(f"{SCRATCH}hash:1", HOUR_MS)


def content(client: Any) -> dict[bytes, Any]:
    """All keys, by their type's own commands."""
    readers: dict[bytes, Any] = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.execute_command("ZRANGE", key, 0, -1, "WITHSCORES"),
        b"stream": client.xrange,
    }
    return {key: readers[client.type(key)](key) for key in client.scan_iter(f"{SCRATCH}*")}


async def copy(source: str, target: str, *, times: int = 1) -> list[Portion]:
    """Copies all scratch keys, each portion as often as told; the portions."""
    here, there = Connection(source), Connection(target)
    found = []
    try:
        async for names in portions.scan(here, SCRATCH):
            found += [portion async for portion in portions.read(here, SCRATCH, names)]
        for portion in found:
            for _ in range(times):
                await portions.write(there, SCRATCH, [(portion, 1 << 45)])
    finally:
        await here.close()
        await there.close()
    return found


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("source, target", [("redis", "valkey"), ("valkey", "redis")])
def test_every_type_crosses_over(
    both_stores: dict[str, str], source: str, target: str, times: int
) -> None:
    """Also when every portion is written twice, as after an answer that was lost."""
    with (
        redis.Redis.from_url(both_stores[source]) as here,
        redis.Redis.from_url(both_stores[target]) as there,
    ):
        try:
            fill(here, random.Random(0))
            asyncio.run(copy(both_stores[source], both_stores[target], times=times))
            assert content(there) == content(here)
            assert all(there.pexpiretime(key) == 1 << 45 for key in content(there))
        finally:
            here.flushall()
            there.flushall()


def test_portions_are_small_and_follow_on_each_other(both_stores: dict[str, str]) -> None:
    with redis.Redis.from_url(both_stores["redis"]) as client:
        try:
            fill(client, random.Random(1))
            found = asyncio.run(copy(both_stores["redis"], both_stores["redis"]))
        finally:
            client.flushall()
    for before, portion in zip([None, *found], found, strict=False):
        assert sum(len(part) for item in portion.items for part in item) <= 1 << 16
        goes_on = before is not None and before.key == portion.key
        assert portion.at == (before.end if before is not None and goes_on else 0)
        assert (portion.ttl_ms is None) == (portion.key != "hash:1")
    assert len({portion.key for portion in found}) == 5 + 5 * 4 + 1


def test_the_end_and_the_expiry_of_keys_below_a_base(both_stores: dict[str, str]) -> None:
    """Just what expires at the moment named is made permanent; other bases are left alone."""

    async def run(url: str) -> None:
        connection = Connection(url)
        try:
            await portions.persist(connection, SCRATCH, expiring_at_ms=1 << 45)
            assert [client.pexpiretime(key) for key in ("scratch:a", "scratch:b")] == [-1, moment]
            assert client.pexpiretime("other:a") == 1 << 45
            await portions.unlink(connection, SCRATCH)
        finally:
            await connection.close()
        assert client.keys() == [b"other:a"]

    for url in both_stores.values():
        with redis.Redis.from_url(url) as client:
            moment = (1 << 45) + 1
            for key, at_ms in {
                "scratch:a": 1 << 45,
                "scratch:b": moment,
                "other:a": 1 << 45,
            }.items():
                client.set(key, "x", pxat=at_ms)
            try:
                asyncio.run(run(url))
            finally:
                client.flushall()
