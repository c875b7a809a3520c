"""The learner: the rules of selecting and rewarding, one at a time, and what it earns."""

import numpy as np
import pytest

from loadtest.environments import zigzag
from service.algorithm import Config, Learner
from service.algorithm.learner import Ball

PAIRS = [0.0, 1.0, 0.0, 1.0]


def learner(arms: int = 3, **parameters: object) -> Learner:
    """Small enough to follow by hand."""
    wanted = {"horizon": 100, "noise": 0.1, "neighbours": 2} | parameters
    return Learner(Config.resolve(arms=arms, **wanted))  # type: ignore[arg-type]


def split_into_pairs(**parameters: object) -> Learner:
    """Four arms, two by two alike, and the root just split into balls of two."""
    made = learner(arms=4, neighbours=1, cluster_ratio=0.5, **parameters)
    for _ in range(4):
        decision = made.select(0.5)
        made.reward(decision, PAIRS[decision.arm])
    return made


def live(made: Learner) -> list[Ball]:
    """The partition."""
    return [ball for ball in made.balls if ball.phase != "split"]


@pytest.mark.parametrize(
    "sampling, turns",
    [("round_robin", [0, 1, 2, 0, 1, 2]), ("sequential", [0, 0, 1, 1, 2, 2])],
)
def test_whom_a_flagged_ball_asks(sampling: str, turns: list[int]) -> None:
    """The paper's text says the one, its pseudocode the other; then the ball is full."""
    made = learner(sampling=sampling)
    plays = []
    for _ in range(6):
        decision = made.select(0.5)
        plays.append(decision.arm)
        made.reward(decision, 0.0)
    assert plays == turns
    assert made.balls[0].phase == "split"


def test_round_robin_skips_full_arms() -> None:
    """An arm that was rewarded ahead of the others is not asked again."""
    made = learner(arms=2, buckets=2, neighbours=1)
    first = made.select(0.1)
    second = made.select(0.1)
    made.reward(first, 0.0)
    third = made.select(0.9)
    made.reward(third, 0.0)
    assert (first.arm, second.arm, third.arm) == (0, 1, 0)
    assert [made.select(0.5).arm for _ in range(3)] == [1, 1, 1]


def test_children_are_numbered_left_half_first_by_centre() -> None:
    """And arms stay in catalogue order."""
    made = split_into_pairs()
    found = [(b.id, b.interval.index, b.arms) for b in live(made)]
    assert found == [(1, 0, [0, 2]), (2, 0, [1, 3]), (3, 1, [0, 2]), (4, 1, [1, 3])]


def test_the_highest_ucb_wins_and_arms_take_turns_inside_the_ball() -> None:
    """Unrewarded balls first, by id."""
    made = split_into_pairs()
    plays = []
    for _ in range(5):
        decision = made.select(0.2)
        plays.append((decision.ball.id, decision.arm))
        made.reward(decision, PAIRS[decision.arm])
    assert plays == [(1, 0), (2, 1), (2, 3), (2, 1), (2, 3)]


def test_flagging_counts_the_reward_just_played() -> None:
    """n ≥ c_flag·ln T / Δ²: at depth 1 and c_flag·ln T = 0.5 that is the second reward."""
    made = learner(arms=1, flag_coefficient=0.5 / np.log(100))
    plays = []
    for _ in range(5):
        decision = made.select(0.2)
        made.reward(decision, 0.5)
        plays.append(decision.ball.id)
    # Ball 1 = [0, 1/2) is split at its second reward into 3 and 4; ball 3 = [0, 1/4) needs 8.
    assert plays == [1, 1, 3, 3, 3]


def test_a_late_reward_goes_to_the_descendant_that_holds_it() -> None:
    """However many splits lie between."""
    made = learner(arms=2, neighbours=1)
    late = made.select(0.2)
    for _ in range(8):
        decision = made.select(0.2)
        made.reward(decision, 0.3)
    ball = next(b for b in live(made) if b.interval.start <= 0.2 < b.interval.end and 0 in b.arms)
    before = ball.n
    made.reward(late, 0.9)
    assert ball.n == before + 1


def test_the_first_flagged_of_two_comes_first() -> None:
    """Two balls of one interval can be flagged together when rewards are late."""
    made = split_into_pairs(flag_coefficient=0.5 / np.log(100))
    open_plays = [made.select(0.2) for _ in range(6)]
    for ball in (2, 1):
        for decision in [d for d in open_plays if d.ball.id == ball][:2]:
            made.reward(decision, 0.5)
    assert [b.id for b in live(made) if b.phase == "flagged"] == [1, 2]
    assert made.select(0.2).ball.id == 2


@pytest.mark.parametrize(
    "similarity, highest_regret",
    [("curves", 7_700), ("learned", 9_000), ("none", 14_800)],
)
def test_regret_of_the_papers_simulation(similarity: str, highest_regret: float) -> None:
    """K = 50, σ = 1e-5, T = 100,000: an independent implementation found 6,600, 7,840 and 13,020
    as means of five seeds; the bound leaves what one seed differs from that."""
    environment = zigzag(50, noise=1e-5)
    given = {"curves": environment.curves(1001)} if similarity == "curves" else {}
    made = Learner(
        Config.resolve(
            arms=50, horizon=100_000, noise=1e-5, similarity={"kind": similarity, **given}
        )
    )
    rng = np.random.default_rng(0)
    contexts = rng.random(100_000)
    peaks = environment.features["phi"].tolist()
    earned = 0.0
    for x in contexts.tolist():
        decision = made.select(x)
        mean = 1 - abs(x - peaks[decision.arm])
        earned += mean
        made.reward(decision, mean + rng.normal(0, 1e-5))
    regret = float(environment.optimum(contexts).sum() - earned)
    assert 0.7 * highest_regret < regret < highest_regret
