"""Reads a decision log, NDJSON, line by line, into the sums of `off_policy`.

A decision has a line when it is made and one when it is closed; what the second lacks is taken from
the first. In memory are the decisions open at a time and a few numbers an arm, never the log.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from service.algorithm.off_policy import Tally
from service.errors import BadLog

REWARDED = frozenset({"rewarded", "defaulted"})
UNREWARDED = frozenset({"expired", "censored"})
# Weights, their squares and sums of them stay within the floats.
LEAST_PROPENSITY = 1e-15
LARGEST_REWARD = 1e12
_BATCH = 10_000


class Line:
    """One event; what is wrong with it is said with the line's number."""

    def __init__(self, number: int, text: bytes) -> None:
        self.number = number
        try:
            self._fields = json.loads(text.decode(), parse_constant=self._no_number)
        except (ValueError, RecursionError) as error:
            raise self.bad(f"is not JSON ({error}); it may be cut off") from error
        if not isinstance(self._fields, dict):
            raise self.bad("is not a JSON object")

    def bad(self, what: str) -> BadLog:
        """The error to raise."""
        return BadLog(f"Line {self.number} of the log {what}.")

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        """The field's text, which must be there."""
        value = self._fields.get(name)
        if not isinstance(value, str) or not value:
            raise self.bad(f"has no text for '{name}'")
        return value

    def number_of(self, name: str, *, least: float, most: float) -> float:
        """The field's number, which must be there and within these."""
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.bad(f"has no number for '{name}'")
        if not least <= value <= most:
            raise self.bad(f"has a '{name}' that is not between {least:g} and {most:g}")
        return float(value)

    def propensity(self) -> float:
        """How likely the arm was to be played."""
        return self.number_of("propensity", least=LEAST_PROPENSITY, most=1.0)

    def place(self) -> tuple[int, ...] | None:
        """Where the line stands in the log, if it says so: ids grow from line to line."""
        try:
            return tuple(int(part) for part in str(self._fields["id"]).split("-"))
        except (KeyError, ValueError):
            return None

    def said(self, name: str) -> bool:
        """Whether the field is true."""
        return self._fields.get(name) is True

    def _no_number(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is no number")


class Selected(NamedTuple):
    """What was decided."""

    arm: str
    propensity: float
    holdout: bool

    @classmethod
    def by(cls, line: Line) -> "Selected":
        """As the line has it."""
        return cls(line.text("arm"), line.propensity(), line.said("holdout"))


class DecisionLog:
    """What a log says of its decisions, and how many of which kind there are."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.arms: dict[str, int] = {}  # by name, numbered in the order of their first decision
        # Used: rewarded, defaulted (of these holdout, certain: with a propensity of 1). Left out:
        # open, expired, censored, ranked (below the first of a ranking), incomplete (a closed
        # decision whose first line is missing, and with it the arm), repeated (a line).
        self.counts: Counter[str] = Counter()
        self._open: dict[str, Selected] = {}
        self._last: tuple[int, ...] = ()
        self._rows: list[tuple[int, float, float]] = []

    @classmethod
    def read(cls, lines: Iterable[bytes]) -> "DecisionLog":
        """The whole of it; empty lines count, but say nothing."""
        log = cls()
        for number, text in enumerate(lines, 1):
            if text.strip():
                log._take(Line(number, text))
        log._add_up()
        log.counts["open"] = len(log._open)
        return log

    def _take(self, line: Line) -> None:
        event = line.text("event")
        place = line.place()
        if place is not None:
            # Pages of the log that overlap, or the same page twice.
            if place <= self._last:
                self.counts["repeated"] += 1
                return
            self._last = place
        if event == "selected":
            self._select(line)
        elif event in REWARDED | UNREWARDED:
            self._close(line, event)

    def _select(self, line: Line) -> None:
        decision_id = line.text("decision_id")
        if not _ranked(decision_id):
            self._open[decision_id] = Selected.by(line)

    def _close(self, line: Line, event: str) -> None:
        decision_id = line.text("decision_id")
        if _ranked(decision_id):
            # Which arms stand below depends on those above: no constant policy plays there.
            self.counts["ranked"] += 1
            return
        selected = self._open.pop(decision_id, None)
        if event in UNREWARDED:
            self.counts[event] += 1
            return
        reward = line.number_of("reward", least=-LARGEST_REWARD, most=LARGEST_REWARD)
        if line.has("arm") and line.has("propensity"):
            selected = Selected.by(line)
        if selected is None:
            self.counts["incomplete"] += 1
            return
        self.counts[event] += 1
        self.counts["holdout"] += selected.holdout
        self.counts["certain"] += math.isclose(selected.propensity, 1.0, rel_tol=1e-12)
        arm = self.arms.setdefault(selected.arm, len(self.arms))
        self._rows.append((arm, selected.propensity, reward))
        if len(self._rows) == _BATCH:
            self._add_up()

    def _add_up(self) -> None:
        if self._rows:
            columns: Any = zip(*self._rows, strict=True)
            arms, propensities, rewards = map(np.array, columns)
            self.tally.add(arms, propensities=propensities, rewards=rewards)
            self._rows.clear()


def _ranked(decision_id: str) -> bool:
    """Whether this is a further decision of a ranking: `ID.2`, `ID.3`, …"""
    return "." in decision_id
