"""Reads and writes keys of any type in portions, with plain commands that every server knows.

What a key holds is a list of *items*, each a list of bytes; what an item is depends on the type. A
portion that is written again leaves what the first write left.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from redis.exceptions import ResponseError

from service.store.connection import Connection

Item = list[bytes]

_BYTES = 1 << 16
_ITEMS = 500
_KEYS = 50
_SCANNED = 1000
# How the server refuses an entry that a stream has already.
_ENTRY_IS_KNOWN = "equal or smaller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Some of what a key holds; before it come `at` bytes of a string, or `at` items."""

    key: str
    type: str
    ttl_ms: int | None
    at: int
    items: list[Item]

    @property
    def end(self) -> int:
        """Where the next portion of the key begins."""
        return self.at + (len(self.items[0][0]) if self.type == "string" else len(self.items))


class _Strings:
    """An item is a part of the string, the only one of its portion."""

    first: Any = 0
    sizes = range(1, 2)

    def ask(self, commands: Any, key: str, place: Any) -> None:
        """Queues the command that reads from this place on."""
        commands.getrange(key, place, place + _BYTES - 1)

    def take(self, reply: Any, place: Any) -> tuple[list[Item], Any]:
        """The items of the reply, and the place to read on from, or `None`."""
        return [[reply]] if reply else [], place + _BYTES if len(reply) == _BYTES else None

    def write(self, commands: Any, key: str, portion: Portion) -> None:
        """Queues the commands that write the portion."""
        ((part,),) = portion.items
        if portion.at:
            commands.setrange(key, portion.at, part)
        else:
            commands.set(key, part)


class _Hashes(_Strings):
    """An item is a field and its value."""

    sizes = range(2, 3)

    def ask(self, commands: Any, key: str, place: Any) -> None:
        commands.hscan(key, place, count=_ITEMS)

    def take(self, reply: Any, place: Any) -> tuple[list[Item], Any]:
        place, fields = reply
        return [list(item) for item in fields.items()], place or None

    def write(self, commands: Any, key: str, portion: Portion) -> None:
        commands.hset(key, mapping=dict(portion.items))


class _Sets(_Strings):
    """An item is a member."""

    def ask(self, commands: Any, key: str, place: Any) -> None:
        commands.sscan(key, place, count=_ITEMS)

    def take(self, reply: Any, place: Any) -> tuple[list[Item], Any]:
        place, members = reply
        return [[member] for member in members], place or None

    def write(self, commands: Any, key: str, portion: Portion) -> None:
        commands.sadd(key, *(member for (member,) in portion.items))


class _SortedSets(_Strings):
    """An item is a member and its score, in as many digits as the exact score needs."""

    sizes = range(2, 3)

    def ask(self, commands: Any, key: str, place: Any) -> None:
        commands.zrange(key, place, place + _ITEMS - 1, withscores=True)

    def take(self, reply: Any, place: Any) -> tuple[list[Item], Any]:
        items = [[member, repr(score).encode()] for member, score in reply]
        return items, place + _ITEMS if len(items) == _ITEMS else None

    def write(self, commands: Any, key: str, portion: Portion) -> None:
        commands.zadd(key, {member: float(score) for member, score in portion.items})


class _Lists(_Strings):
    """An item is a member."""

    def ask(self, commands: Any, key: str, place: Any) -> None:
        commands.lrange(key, place, place + _ITEMS - 1)

    def take(self, reply: Any, place: Any) -> tuple[list[Item], Any]:
        return [[member] for member in reply], place + _ITEMS if len(reply) == _ITEMS else None

    def write(self, commands: Any, key: str, portion: Portion) -> None:
        # What an earlier try added goes first.
        if portion.at:
            commands.ltrim(key, 0, portion.at - 1)
        else:
            commands.unlink(key)
        commands.rpush(key, *(member for (member,) in portion.items))


class _Streams(_Strings):
    """An item is an entry: its id, then its fields and values."""

    first = b"-"
    sizes = range(3, 1 << 10, 2)

    def ask(self, commands: Any, key: str, place: Any) -> None:
        commands.xrange(key, min=place, count=_ITEMS)

    def take(self, reply: Any, place: Any) -> tuple[list[Item], Any]:
        items = [[entry_id, *chain.from_iterable(fields.items())] for entry_id, fields in reply]
        place = b"(" + items[-1][0] if len(items) == _ITEMS else None
        return items, place

    def write(self, commands: Any, key: str, portion: Portion) -> None:
        for entry_id, *fields in portion.items:
            commands.xadd(key, dict(zip(fields[::2], fields[1::2], strict=True)), id=entry_id)


TYPES: dict[str, _Strings] = {
    "string": _Strings(),
    "hash": _Hashes(),
    "set": _Sets(),
    "zset": _SortedSets(),
    "list": _Lists(),
    "stream": _Streams(),
}


async def scan(connection: Connection, base: str) -> AsyncIterator[list[str]]:
    """The keys below the base, some at a time, without it; now and then one comes twice."""
    cursor = 0
    while True:
        async with connection.in_time():
            cursor, found = await connection.client.scan(cursor, f"{base}*", _SCANNED)
        names = [key.decode().removeprefix(base) for key in found]
        for start in range(0, len(names), _KEYS):
            yield names[start : start + _KEYS]
        if not cursor:
            return


async def read(connection: Connection, base: str, names: Sequence[str]) -> AsyncIterator[Portion]:
    """What these few keys hold, key by key; one that expires meanwhile may be missing, or its end.

    (What has a TTL is of no use to anyone when it expires.)
    """
    async with connection.in_time():
        commands = connection.client.pipeline(transaction=False)
        for name in names:
            commands.type(base + name)
            commands.pttl(base + name)
        replies = iter(await commands.execute())
    found = [
        (name, kind.decode(), None if ttl_ms < 0 else ttl_ms)
        for name, kind, ttl_ms in zip(names, replies, replies, strict=True)
        if kind != b"none"
    ]
    async with connection.in_time():
        commands = connection.client.pipeline(transaction=False)
        for name, kind, _ in found:
            TYPES[kind].ask(commands, base + name, TYPES[kind].first)
        replies = iter(await commands.execute())
    for (name, kind, ttl_ms), first in zip(found, replies, strict=True):
        items, place = TYPES[kind].take(first, TYPES[kind].first)
        at = 0
        while True:
            portion = Portion(key=name, type=kind, ttl_ms=ttl_ms, at=at, items=items)
            if items:
                yield portion
                at = portion.end
            if place is None:
                break
            async with connection.in_time():
                commands = connection.client.pipeline(transaction=False)
                TYPES[kind].ask(commands, base + name, place)
                (reply,) = await commands.execute()
            items, place = TYPES[kind].take(reply, place)


async def write(connection: Connection, base: str, portions: Sequence[tuple[Portion, int]]) -> None:
    """Writes the portions, in their order; each key then expires at the time given, in ms."""
    async with connection.in_time():
        commands = connection.client.pipeline(transaction=False)
        for portion, expires_at_ms in portions:
            TYPES[portion.type].write(commands, base + portion.key, portion)
            commands.pexpireat(base + portion.key, expires_at_ms)
        for reply in await commands.execute(raise_on_error=False):
            if isinstance(reply, ResponseError) and _ENTRY_IS_KNOWN in str(reply):
                continue
            if isinstance(reply, Exception):
                raise reply


async def persist(connection: Connection, base: str, *, expiring_at_ms: int) -> None:
    """Takes the TTL from every key below the base that expires at just this time."""
    async for names in scan(connection, base):
        async with connection.in_time():
            commands = connection.client.pipeline(transaction=False)
            for name in names:
                commands.pexpiretime(base + name)
            times = await commands.execute()
            commands = connection.client.pipeline(transaction=False)
            for name, at_ms in zip(names, times, strict=True):
                if at_ms == expiring_at_ms:
                    commands.persist(base + name)
            await commands.execute()


async def unlink(connection: Connection, base: str) -> None:
    """Gives back the memory of every key below the base."""
    async for names in scan(connection, base):
        async with connection.in_time():
            await connection.client.unlink(*(base + name for name in names))
