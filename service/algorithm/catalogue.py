"""Which arms there are, and which of them may be played."""

from collections.abc import Callable, Collection


class NoArm(Exception):
    """No arm may be played: each is paused, retired, or not eligible."""


class Catalogue:
    """The arms by their numbers, which never change; a new arm gets the next one."""

    def __init__(self, arms: int) -> None:
        self.size = arms
        self.paused: set[int] = set()
        self.retired: set[int] = set()

    @property
    def arms(self) -> int:
        """How many there are, paused ones among them."""
        return self.size - len(self.retired)

    def add(self) -> int:
        """The number of a new arm."""
        self.size += 1
        return self.size - 1

    def retire(self, arm: int) -> None:
        """The arm is gone for ever."""
        self.paused.discard(arm)
        self.retired.add(arm)

    def may_play(self, arm: int) -> bool:
        """Whether the arm is neither paused nor retired."""
        return arm not in self.paused and arm not in self.retired

    def rule(self, eligible: Collection[int] | None) -> Callable[[int], bool]:
        """Tells whether an arm may be played, of these alone if some are named."""
        if eligible is None:
            return self.may_play if self.paused or self.retired else _any_arm
        return {arm for arm in eligible if self.may_play(arm)}.__contains__


def _any_arm(_: int) -> bool:
    return True
