"""What a key of the store holds, so that equal things compare as equal."""

from typing import Any

from tests.support.audit import RawClient


def value_of(client: RawClient, key: bytes) -> Any:
    """A hash as a dict, all else as its dump.

    The dump of a hash is in the order of its table, which the store rebuilds when it has time.
    """
    return client.hgetall(key) if client.type(key) == b"hash" else client.dump(key)
