"""What is compared: contests (an environment, a horizon, a delay), learners, and one match of them.

A match's arms, their order, its contexts and its chance come from the seed alone, so that all
learners of a contest meet the same.
"""

import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from loadtest.baselines import KINDS, Peer, Task
from loadtest.environments import (
    Environment,
    Floats,
    bernoulli,
    continuum,
    finite_types,
    permuted,
    zigzag,
)
from loadtest.simulation.ablations import ABLATIONS, ablated
from loadtest.simulation.play import Trials, marks_of
from service.algorithm import AdaptiveConfig, learner_for, resolve

FULL = 100_000  # the trials of a contest in full size
_CHUNK = 10_000


@dataclass(frozen=True, kw_only=True)
class Contest:
    """An environment for each seed, played for so many trials with rewards so late."""

    name: str
    kind: str = "zigzag"
    arms: int
    noise: float = 0.1
    horizon: int
    delay: int = 0  # in trials
    tuned_as: str = ""  # the contest whose settings are used, if not its own

    def environment(self, seed: int) -> Environment:
        """Arms in a random order; types are drawn anew."""
        match self.kind:
            case "zigzag":
                made = zigzag(self.arms, noise=self.noise)
            case "Bernoulli":
                made = bernoulli(zigzag(self.arms, noise=self.noise))
            case "types":
                made = finite_types(self.arms, types=5, noise=self.noise, lipschitz=1.0, seed=seed)
            case _:
                made = continuum(self.arms, noise=self.noise, lipschitz=1.0)
        return permuted(made, seed=seed)

    @property
    def feature(self) -> str:
        """The one that is the true metric of the arms."""
        return {"types": "type", "continuum": "theta"}.get(self.kind, "phi")


def contests(trials: int, *, with_long: bool) -> list[Contest]:
    """All of them; other horizons and the delays keep their proportion to `trials`."""

    def part(full: int) -> int:
        return max(1, round(full * trials / FULL))

    def late(delay: int) -> Contest:
        return Contest(
            name=f"K=50 σ=0.1, {part(delay):,} late", arms=50, horizon=trials, delay=part(delay)
        )

    def of_length(full: int, *, tuned_as: str = "") -> Contest:
        horizon = part(full)
        return Contest(
            name=f"K=50 σ=0.1, T={horizon:,}", arms=50, horizon=horizon, tuned_as=tuned_as
        )

    plain = [(50, 1e-5), (100, 1e-5), (200, 1e-2), (50, 0.3), (200, 0.3)]
    found = [
        *(
            Contest(name=f"K={arms} σ={noise:g}", arms=arms, noise=noise, horizon=trials)
            for arms, noise in plain
        ),
        Contest(name="5 types, K=200 σ=0.3", kind="types", arms=200, noise=0.3, horizon=trials),
        Contest(name="continuum, K=200 σ=0.1", kind="continuum", arms=200, horizon=trials),
        Contest(name="Bernoulli, K=200", kind="Bernoulli", arms=200, horizon=trials),
        Contest(name="K=10 σ=0.1", arms=10, horizon=trials),
        Contest(name="K=1,000 σ=0.1", arms=1000, horizon=trials),
        of_length(2_000),
        of_length(FULL),
        late(100),
        late(1_000),
    ]
    if with_long:
        found.append(of_length(10 * FULL, tuned_as=of_length(FULL).name))
    return found


# One configuration of ours for all contests; the second shows what it costs to be told nothing.
NOTHING = {"noise": "auto", "lipschitz": "auto", "horizon": None}
OURS: dict[str, dict[str, Any]] = {
    "adaptive": {"preset": "adaptive"},
    "adaptive, told nothing": {"preset": "adaptive", **NOTHING},
    "simulation preset": {"preset": "simulation"},
}
PEERS = {kind.name: kind for kind in KINDS}


class Player(Protocol):
    """Ours and the peers alike; what a select hands out knows its `arm`, and is then rewarded."""

    def select(self, x: float, /) -> Any:
        """What to play."""

    def reward(self, decision: Any, reward: float, /) -> None:
        """Now or later."""


class Play(NamedTuple):
    """What a peer hands out."""

    x: float
    arm: int


@dataclass(frozen=True)
class PeerPlayer:
    """A peer, which is told context and arm again with the reward."""

    peer: Peer

    def select(self, x: float) -> Play:
        """The peer's arm."""
        return Play(x, self.peer.select(x))

    def reward(self, play: Play, reward: float) -> None:
        """To the peer."""
        self.peer.reward(play.x, play.arm, reward)


@dataclass(frozen=True, kw_only=True)
class Match:
    """One learner, with its settings, in one contest with one seed."""

    contest: Contest
    learner: str
    settings: Any = None
    seed: int

    @property
    def name(self) -> str:
        """What tells the match from every other, fit for the name of a file."""
        contest = f"{self.contest.name} T={self.contest.horizon}"
        return f"{contest} {self.learner} {in_short(self.settings)} {self.seed}".replace(" ", "_")

    def player(self, environment: Environment) -> Player:
        """The learner, before its first trial."""
        given: dict[str, Any] = {
            "arms": environment.arms,
            "horizon": self.contest.horizon,
            "noise": environment.noise,
            "lipschitz": environment.lipschitz,
        }
        if self.learner in OURS:
            return learner_for(resolve(**given | OURS[self.learner]))
        places = environment.features[self.contest.feature]
        if self.learner in ABLATIONS:
            return ablated(self.learner, AdaptiveConfig.resolve(**given), places=places)
        kind = PEERS[self.learner]
        apart = self.contest.kind == "types"
        told = places if kind.told else None
        task = Task(**given, seed=self.seed, places=told, apart=apart)
        return PeerPlayer(kind.make(task, self.settings))


@dataclass(frozen=True)
class Course:
    """How a match went: the regret after so many trials, and the time that the learner took."""

    trials: Floats
    regrets: Floats
    seconds: float


def in_short(settings: Any) -> str:
    """Settings in short."""
    if settings is None:
        return ""
    return ", ".join(f"{name} {value:g}" for name, value in asdict(settings).items())


def play(match: Match) -> Course:
    """From the first trial to the last; a reward that would come after it never does."""
    contest = match.contest
    environment = contest.environment(match.seed)
    trials = Trials.draw(environment, horizon=contest.horizon, seed=match.seed)
    player = match.player(environment)
    under_way: deque[tuple[Any, float]] = deque()
    lost = np.empty(contest.horizon)
    started = time.process_time()
    for first in range(0, contest.horizon, _CHUNK):
        contexts = trials.contexts[first : first + _CHUNK]
        means = environment.means(contexts)
        best = means.max(axis=1)
        chances = trials.chances[first : first + _CHUNK].tolist()
        for place, (x, chance) in enumerate(zip(contexts.tolist(), chances, strict=True)):
            decision = player.select(x)
            mean = float(means[place, decision.arm])
            under_way.append((decision, environment.reward_by_chance(mean, chance)))
            lost[first + place] = best[place] - mean
            if len(under_way) > contest.delay:
                player.reward(*under_way.popleft())
    seconds = time.process_time() - started
    marks = np.array(marks_of(contest.horizon))
    return Course(marks.astype(np.float64), np.cumsum(lost)[marks - 1], seconds)
