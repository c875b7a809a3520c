"""What the hash `path` must say of an interval, whatever a test did."""

import math
import struct
from typing import Any

from service.store import keys


def check_path(client: Any, base: str, depth: int, index: int) -> None:
    """The best active ball and the best mean are those that the rankings have first."""
    pipeline = client.pipeline(transaction=False)
    pipeline.hget(keys.derived(base, "path"), f"a:{depth}:{index}")
    for kind in ("active", "means"):
        pipeline.zrange(keys.derived(base, kind, depth, index), 0, 0, withscores=True)
    found, best, means = pipeline.execute()
    if not best and not means:
        assert found is None
        return
    assert struct.unpack("<dIdI", found) == (*_first_of(best), *_first_of(means))


def _first_of(ranking: list[tuple[bytes, float]]) -> tuple[float, int]:
    return (ranking[0][1], *struct.unpack(">I", ranking[0][0][:4])) if ranking else (math.inf, 0)
