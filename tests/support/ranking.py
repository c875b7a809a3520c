"""What a ranking must be: the arm that the learner would play, then the one without that, …"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import copy
from types import SimpleNamespace
from typing import Any

from service.algorithm import Learner, NoArm


def ranked(learner: Any, x: float, *, n: int, eligible: Collection[int] | None) -> list[Any]:
    """Up to `n` decisions for distinct arms, best first: all are chosen, then all are played."""
    arms: list[int] = []
    with _without_playing(learner):
        while len(arms) < n:
            try:
                arms.append(learner.select(x, _left(learner, eligible, arms)).arm)
            except NoArm:
                break
    with _one_split_at_the_end(learner):
        return [learner.select(x, {arm}) for arm in arms]


def _left(
    learner: Any, eligible: Collection[int] | None, taken: list[int]
) -> Collection[int] | None:
    if not taken:
        return eligible
    arms = range(learner.catalogue.size) if eligible is None else eligible
    return set(arms).difference(taken)


@contextmanager
def _without_playing(learner: Any) -> Iterator[None]:
    """What the learner selects is only chosen, and leaves everything as it is."""
    if isinstance(learner, Learner):
        with _replaced(
            learner,
            {
                "_sample": _on_a_copy(learner._sample),
                "_exploit": _on_a_copy(learner._exploit),
                "_split": lambda *_: None,
            },
        ):
            yield
        return
    selects = learner._selects
    new_arm = {"_try_new_arm": lambda arm, _: SimpleNamespace(arm=arm)}
    with _replaced(learner, {"_let_fly": lambda *_: None} | new_arm):
        yield
    learner._selects = selects


def _on_a_copy(play: Callable[..., Any]) -> Callable[..., Any]:
    def play_copy(ball: Any, *rest: Any) -> Any:
        ball = copy(ball)
        if ball.flagged is not None:
            ball.flagged = copy(ball.flagged)
            ball.flagged.issued = dict(ball.flagged.issued)
            ball.flagged.asked = set(ball.flagged.asked)
        return play(ball, *rest)

    return play_copy


@contextmanager
def _one_split_at_the_end(learner: Any) -> Iterator[None]:
    """The engine splits after the whole ranking, and the ball that was found full last."""
    if not isinstance(learner, Learner):
        yield
        return
    found: list[tuple[Any, ...]] = []
    with _replaced(learner, {"_split": lambda *full: found.append(full)}):
        yield
    if found:
        learner._split(*found[-1])


@contextmanager
def _replaced(learner: Any, methods: dict[str, Any]) -> Iterator[None]:
    for name, method in methods.items():
        setattr(learner, name, method)
    try:
        yield
    finally:
        for name in methods:
            delattr(learner, name)
