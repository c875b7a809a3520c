"""What the processes of a load test saw, in a form that adds up.

A process hands over a tally every `FLUSH_SECONDS`, holding what is new since the last one.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.traffic import Trial

FLUSH_SECONDS = 0.25

SELECT, REWARD = "select", "reward"
# Latencies are kept by these names: from when the request was due, and from when it was sent.
DUE, SENT = "due", "sent"
# How late the client itself was: from due to sent.
LAG = "lag"

TIMEOUT, CONNECT, RESET = "timeout", "connect", "reset"
UNREADABLE = "unreadable"  # a 200 that is not the service's


class Fate(NamedTuple):
    """What became of a request.

    `kind` is a status ("200"), for an accepted reward its outcome ("applied", "duplicate"), or how
    the request failed ("timeout", "connect", "reset"). `certain` is false when the service may have
    counted it or not.
    """

    tenant: int
    call: str
    kind: str
    certain: bool = True


@dataclass
class Learning:
    """Sums over answered selects, in means: what was earned, and what could have been."""

    trials: int = 0
    earned: float = 0.0
    optimum: float = 0.0
    at_random: float = 0.0

    def add(self, other: "Learning") -> None:
        """Takes in another one."""
        self.trials += other.trials
        self.earned += other.earned
        self.optimum += other.optimum
        self.at_random += other.at_random

    def learn(self, trial: Trial, *, arm: int) -> None:
        """Takes in the play of an arm."""
        self.trials += 1
        self.earned += float(trial.means[arm])
        self.optimum += float(trial.means.max())
        self.at_random += float(trial.means.mean())

    @property
    def regret(self) -> float:
        """What the optimum would have earned more."""
        return self.optimum - self.earned

    @property
    def share(self) -> float:
        """How far it came from a random arm (0) to the optimum (1); 0 when there is no way to go.

        An environment in which all arms are alike has nothing to learn.
        """
        way = self.optimum - self.at_random
        return (self.earned - self.at_random) / way if way > 0 else 0.0


@dataclass
class Tally:
    """What one process saw since its last tally."""

    process: int
    sending: bool = True  # else all selects of the process were sent
    slot: int = 0  # the slot of `FLUSH_SECONDS` since the start that it is about
    answered_at: float = 0.0  # when the last select was done with, by the monotonic clock
    fates: Counter[Fate] = field(default_factory=Counter)
    # By call and one of DUE, SENT, LAG; microseconds.
    latencies_us: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    learning: Learning = field(default_factory=Learning)
    rewarded: Learning = field(default_factory=Learning)  # of the trials whose reward was applied
    lost: int = 0  # rewards that were drawn to be lost
    unsent: int = 0  # rewards that were still to come when the test ended
    twice_applied: int = 0  # a reward sent again that did not answer `duplicate`
    in_flight: int = 0
    cpu_seconds: float = 0.0  # that the process took since the start

    def time(self, call: str, *, due: float, sent: float, done: float) -> None:
        """Takes in when a request was due, sent and done with."""
        if call == SELECT:
            self.answered_at = done
        for since, seconds in ((DUE, done - due), (SENT, done - sent), (LAG, sent - due)):
            self.latencies_us.setdefault((call, since), []).append(round(seconds * 1e6))
