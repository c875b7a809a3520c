"""What a ranking must be: the arms that the learner would play one after the other."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from service.algorithm import Learner, NoArm


def ranked(learner: Any, x: float, *, n: int, eligible: Collection[int] | None) -> list[Any]:
    """Up to `n` decisions for distinct arms, best first; all are played."""
    decisions: list[Any] = []
    with _one_split_at_the_end(learner):
        for _ in range(n):
            try:
                decisions.append(learner.select(x, _left(learner, eligible, decisions)))
            except NoArm:
                break
    return decisions


def _left(
    learner: Any, eligible: Collection[int] | None, decisions: list[Any]
) -> Collection[int] | None:
    if not decisions:
        return eligible
    arms = range(learner.catalogue.size) if eligible is None else eligible
    return set(arms) - {decision.arm for decision in decisions}


@contextmanager
def _one_split_at_the_end(learner: Any) -> Iterator[None]:
    """The engine splits after the whole ranking, and the ball that was found full last."""
    if not isinstance(learner, Learner):
        yield
        return
    found: list[tuple[Any, ...]] = []
    learner._split = lambda *full: found.append(full)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del learner._split
    if found:
        learner._split(*found[-1])
