"""Each peer learns, from its own contexts, arms and rewards, and the same with the same seed."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from loadtest.baselines import (
    KINDS,
    AdaptiveElimination,
    BinnedThompson,
    ContextualZooming,
    EliminationSettings,
    Kind,
    NeighbourSettings,
    NeighbourUcb,
    ProcessSettings,
    ProcessUcb,
    Task,
    ThompsonSettings,
    ZoomingSettings,
)
from loadtest.environments import finite_types, permuted, zigzag
from loadtest.simulation.play import Trials

ARMS, HORIZON = 10, 1500
QUIET = permuted(zigzag(ARMS, noise=0.01), seed=3)
TASK = Task(
    arms=ARMS, horizon=HORIZON, noise=0.01, lipschitz=1.0, seed=5, places=QUIET.features["phi"]
)
LEARNERS = [kind for kind in KINDS if len(kind.settings) > 1]
every_learner = pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.name)


def arms_played(
    kind: Kind, settings: object, *, task: Task = TASK, delay: int = 0, tell: str = "the truth"
) -> list[int]:
    """The arms of a run; `tell` can be a lie about what was played."""
    trials = Trials.draw(QUIET, horizon=HORIZON, seed=1)
    means = QUIET.means(trials.contexts)
    peer = kind.make(task, settings)
    played: list[int] = []
    for trial, x in enumerate(trials.contexts.tolist()):
        played.append(peer.select(x))
        due = trial - delay
        if due >= 0:
            at, arm = float(trials.contexts[due]), played[due]
            reward = QUIET.reward_by_chance(float(means[due, arm]), float(trials.chances[due]))
            if tell == "another context":
                at = 1.0 - at
            elif tell == "another arm":
                arm = (arm + 1) % ARMS
            peer.reward(at, arm, reward)
    return played


def regret(arms: list[int], *, last: int = HORIZON) -> float:
    """Of the last trials."""
    contexts = Trials.draw(QUIET, horizon=HORIZON, seed=1).contexts
    means = QUIET.means(contexts)
    lost = means.max(axis=1) - means[np.arange(HORIZON), arms]
    return float(lost[-last:].sum())


AT_RANDOM = regret(np.random.default_rng(0).integers(ARMS, size=HORIZON).tolist(), last=500)


LEARNED = 0.2 * AT_RANDOM  # a learner has less regret in the last third, what is wired wrong more


@cache
def tuned(kind: Kind) -> Any:
    """The best here of a third of the kind's settings, to save time."""
    return min(kind.settings[::3], key=lambda one: regret(arms_played(kind, one), last=500))


@every_learner
class TestEveryLearner:
    def test_it_learns(self, kind: Kind) -> None:
        assert regret(arms_played(kind, tuned(kind)), last=500) < LEARNED

    def test_it_learns_from_late_rewards(self, kind: Kind) -> None:
        assert regret(arms_played(kind, tuned(kind), delay=20), last=500) < 2 * LEARNED

    @pytest.mark.parametrize("lie", ["another context", "another arm"])
    def test_it_minds_which_arm_and_context_were_rewarded(self, kind: Kind, lie: str) -> None:
        """Told another one, it fails the first of these tests."""
        assert regret(arms_played(kind, tuned(kind), tell=lie), last=500) > LEARNED

    def test_it_is_the_same_with_the_same_seed(self, kind: Kind) -> None:
        assert arms_played(kind, tuned(kind)) == arms_played(kind, tuned(kind))


def test_chance_is_that_of_the_seed() -> None:
    (chance,) = (kind for kind in KINDS if kind not in LEARNERS)
    first = arms_played(chance, None)
    assert first == arms_played(chance, None)
    assert first != arms_played(chance, None, task=replace(TASK, seed=6))
    assert set(first) == set(range(ARMS))


def test_thompson_keeps_the_mean_of_each_bin_and_arm() -> None:
    """With a prior that weighs next to nothing beside a reward."""
    task = replace(TASK, noise=1e-4)
    peer = BinnedThompson(task, ThompsonSettings(bins=1000, spread=1.0))
    for reward in (0.2, 0.4):
        peer.reward(0.5001, 3, reward)
    assert peer.index[500, 3] == pytest.approx(0.3, abs=1e-4)
    assert peer.index[499, 3] == peer.index[500, 2] == 0.5


def test_elimination_drops_the_worse_arm_and_halves_the_bin() -> None:
    task = replace(TASK, arms=2, noise=0.0)
    peer = AdaptiveElimination(task, EliminationSettings(bias=0.5, confidence=1.0))
    for arm, reward in ((0, 0.9), (1, 0.5)):
        peer.reward(0.3, arm, reward)
    # 0.4 apart is within 0.5·L·1: both go on in halves; there it is beyond 0.5·L·½.
    assert {peer.select(0.3) for _ in range(4)} == {0, 1}
    for arm, reward in ((0, 0.9), (1, 0.5)):
        peer.reward(0.3, arm, reward)
    assert {peer.select(0.3) for _ in range(4)} == {0}
    assert {peer.select(0.8) for _ in range(4)} == {0, 1}


def test_neighbours_give_their_mean_and_their_distance() -> None:
    """Without noise the nearest window that holds a sample counts: k is as small as can be."""
    peer = NeighbourUcb(replace(TASK, noise=0.0), NeighbourSettings(exploration=1, distance=1))
    peer.reward(0.5, 4, 0.7)
    cell = peer.cell(0.5)
    assert peer.index[cell, 4] == pytest.approx(0.7 + 0.5 / peer.cells)
    assert peer.index[cell + 4, 4] == pytest.approx(0.7 + 4.5 / peer.cells)
    assert math.isinf(peer.index[cell, 3])


def test_the_process_is_sure_where_it_has_seen_and_unsure_elsewhere() -> None:
    """It plays the arm that it knows to be good there, and elsewhere one that it does not know."""
    peer = ProcessUcb(replace(TASK, arms=2), ProcessSettings(exploration=1.0, length=0.1))
    for _ in range(20):
        peer.reward(0.25, 0, 0.4)
        peer.reward(0.75, 1, 1.0)
    assert peer.select(0.25) == 1
    assert peer.select(0.75) == 1
    peer.reward(0.25, 1, 0.1)
    assert peer.select(0.25) == 0


def test_zooming_shares_between_arms_at_one_place_only() -> None:
    """Types: arms of one type are one ball, those of another are told nothing by it."""
    types = finite_types(6, types=2, noise=0.0, lipschitz=1.0, seed=1)
    kind = types.features["type"]
    task = replace(TASK, arms=6, noise=0.1, places=kind, apart=True)
    peer = ContextualZooming(task, ZoomingSettings(size=1.0, confidence=1.0))
    peer.reward(0.5, 0, 0.2)
    known = np.isfinite(peer.index[peer.cell(0.5)])
    assert known.tolist() == (kind == kind[0]).tolist()
