"""Learners of others, to be compared with ours: small, in numpy, each tuned over a few settings.

None of them knows how arms relate, except contextual zooming, which is told. All of them are told
what ours is: the number of arms, σ, L and T. A reward may come late; none counts plays in flight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from loadtest.baselines.binned import (
    AdaptiveElimination,
    BinnedThompson,
    EliminationSettings,
    ThompsonSettings,
)
from loadtest.baselines.linear import LinearSettings, LinearThompson
from loadtest.baselines.metric import ContextualZooming, ZoomingSettings
from loadtest.baselines.peer import Peer, RandomArm, Task
from loadtest.baselines.smooth import (
    NeighbourSettings,
    NeighbourUcb,
    ProcessSettings,
    ProcessUcb,
)

__all__ = [
    "KINDS",
    "AdaptiveElimination",
    "BinnedThompson",
    "ContextualZooming",
    "EliminationSettings",
    "Kind",
    "LinearSettings",
    "LinearThompson",
    "NeighbourSettings",
    "NeighbourUcb",
    "Peer",
    "ProcessSettings",
    "ProcessUcb",
    "RandomArm",
    "Task",
    "ThompsonSettings",
    "ZoomingSettings",
]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of peer: how one is made, and the settings that it may be tuned to."""

    name: str
    make: Callable[[Task, Any], Peer]
    settings: tuple[Any, ...]
    told: bool = False  # the metric
    slow: bool = False


def _all_of(settings: type, **values: tuple[float, ...]) -> tuple[Any, ...]:
    return tuple(
        settings(**dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())
    )


KINDS = (
    Kind(
        name="Thompson sampling in bins",
        make=BinnedThompson,
        settings=_all_of(ThompsonSettings, bins=(8, 16, 32), spread=(0.12, 0.25, 0.5)),
    ),
    Kind(
        name="adaptively binned successive elimination",
        make=AdaptiveElimination,
        settings=_all_of(EliminationSettings, bias=(0.5, 1.0), confidence=(0.5, 1.0, 2.0)),
    ),
    Kind(
        name="k-nearest-neighbour UCB",
        make=NeighbourUcb,
        settings=_all_of(NeighbourSettings, exploration=(0.04, 0.08, 0.15), distance=(0.5, 1.0)),
    ),
    Kind(
        name="GP-UCB, independent arms",
        make=ProcessUcb,
        settings=_all_of(ProcessSettings, exploration=(1.0, 1.5, 2.5), length=(0.25, 0.5, 1.0)),
    ),
    Kind(
        name="MABWiser LinTS on hinges",
        make=LinearThompson,
        settings=_all_of(LinearSettings, alpha=(0.02, 0.1), ridge=(0.001, 0.1), hinges=(8, 16)),
        slow=True,
    ),
    Kind(
        name="contextual zooming",
        make=ContextualZooming,
        settings=_all_of(ZoomingSettings, size=(0.5, 1.0), confidence=(0.25, 0.5, 1.0)),
        told=True,
    ),
    Kind(name="a random arm", make=RandomArm, settings=(None,)),
)
