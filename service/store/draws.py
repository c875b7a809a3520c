"""The chances of a select: which arms are chosen uniformly, and how likely that was.

Steps know no randomness, so all of it is drawn here, before the step.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.store.tenant import Tenant

_BEST, _UNIFORM, _HOLDOUT = "b", "u", "h"


@dataclass(frozen=True, slots=True)
class Draw:
    """How each arm of a ranking is chosen, a letter each, and the arms drawn for it.

    All of them are the holdout's with the probability `holdout`; else each is chosen uniformly,
    from those of the `playable` ones that are left, with the probability `floor`.
    """

    ways: str
    arms: bytes
    holdout: float
    floor: float
    playable: int


def draw(tenant: Tenant, *, eligible: Sequence[int] | None, n: int) -> Draw:
    """For one select; `eligible` arms are all live."""
    playable = tenant.live if eligible is None else eligible
    holdout, floor = tenant.settings["holdout"], tenant.settings["exploration_floor"]
    if random.random() < holdout:
        ways = _HOLDOUT * n
    else:
        ways = "".join(_UNIFORM if random.random() < floor else _BEST for _ in range(n))
    arms = b"" if ways == _BEST * n else packed(random.sample(playable, min(n, len(playable))))
    return Draw(ways, arms, holdout, floor, len(playable))


def packed(arms: Sequence[int]) -> bytes:
    """Numbers of arms as the steps read them."""
    return np.array(arms, dtype="<u4").tobytes()
