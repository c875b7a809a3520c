"""Rewards gathered into batches: sent when there are enough of them, and at the end.

What is kept, sent and told is the same for both clients, and stands in `_Gathered`.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from service.client.answers import Problem, Refused, Rewards
from service.client.calls import RewardItem
from service.client.errors import Invalid, ZoomingClientError

MOST_ITEMS = 1000  # that the service takes in one call


class _Gathered:
    """Rewards on their way, and what became of those that were sent."""

    def __init__(self, *, most: int) -> None:
        if not 1 <= most <= MOST_ITEMS:
            raise ValueError(f"A batch may have from 1 to {MOST_ITEMS} items, not {most}.")
        self.waiting: list[RewardItem] = []  # not sent yet, or not answered
        self.taken = 0  # applied, or counted before
        self.refused: list[Refused] = []
        self._most = most

    def _put(self, decision_id: str, reward: float) -> None:
        if not math.isfinite(reward):
            raise ValueError(f"The reward of {decision_id} is {reward}; it must be a number.")
        self.waiting.append(RewardItem(decision_id=decision_id, reward=reward))

    def _take(self, *, least: int) -> list[RewardItem]:
        """The next batch, or nothing unless so many wait."""
        if len(self.waiting) < least:
            return []
        batch = self.waiting[: self._most]
        del self.waiting[: self._most]
        return batch

    def _give_back(self, batch: Sequence[RewardItem]) -> None:
        self.waiting[:0] = batch

    def _note(self, answer: Rewards) -> None:
        refused = [item for item in answer.items if isinstance(item, Refused)]
        self.refused += refused
        self.taken += len(answer.items) - len(refused)

    def _set_aside(self, batch: Sequence[RewardItem], error: Invalid) -> None:
        """With one item that is not valid none is taken: those named go, the others wait again."""
        bad = _named(error.problem)
        self._give_back([item for number, item in enumerate(batch) if number not in bad])
        if not bad:
            raise error
        for number, problem in bad.items():
            refused = Refused(
                decision_id=batch[number].decision_id, status="invalid", problem=problem
            )
            self.refused.append(refused)


def _named(problem: Problem | None) -> dict[int, Problem]:
    """The items that a problem names, as `items.3.reward`."""
    found = {}
    for error in (problem and problem.errors) or []:
        match error.field.split("."):
            case ["items", number, *field] if number.isdecimal():
                detail = f"{'.'.join(field)}: {error.message}"
                found[int(number)] = Problem(title="Not valid", status=422, detail=detail)
    return found


class RewardBatches(_Gathered):
    """Sends what is added in batches, and the rest when the `with` block ends.

    An error of `add` or `flush` says that a batch was not answered: it waits to be sent again.
    """

    def __init__(self, send: Callable[[Sequence[RewardItem]], Rewards], *, most: int) -> None:
        super().__init__(most=most)
        self._send = send

    def add(self, decision_id: str, *, reward: float) -> None:
        """Takes a reward, and sends a batch when there are enough for one."""
        self._put(decision_id, reward)
        self._flush(least=self._most)

    def flush(self) -> None:
        """Sends all that waits."""
        self._flush(least=1)

    def _flush(self, *, least: int) -> None:
        while batch := self._take(least=least):
            try:
                self._note(self._send(batch))
            except Invalid as error:
                self._set_aside(batch, error)
            except BaseException:
                self._give_back(batch)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not _failed(kind):
            self.flush()


class AsyncRewardBatches(_Gathered):
    """The same for the asynchronous client; tasks may share it."""

    def __init__(
        self, send: Callable[[Sequence[RewardItem]], Awaitable[Rewards]], *, most: int
    ) -> None:
        super().__init__(most=most)
        self._send = send

    async def add(self, decision_id: str, *, reward: float) -> None:
        """Takes a reward, and sends a batch when there are enough for one."""
        self._put(decision_id, reward)
        await self._flush(least=self._most)

    async def flush(self) -> None:
        """Sends all that waits."""
        await self._flush(least=1)

    async def _flush(self, *, least: int) -> None:
        while batch := self._take(least=least):
            try:
                self._note(await self._send(batch))
            except Invalid as error:
                self._set_aside(batch, error)
            except BaseException:
                self._give_back(batch)
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not _failed(kind):
            await self.flush()


def _failed(kind: type[BaseException] | None) -> bool:
    """Whether the block ended because the service did not answer: it would not do so now either."""
    return kind is not None and issubclass(kind, ZoomingClientError)
