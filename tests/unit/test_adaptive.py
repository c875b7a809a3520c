"""The preset `adaptive`: its rules one at a time, and what it earns."""

import math
import random
from collections import Counter
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from loadtest.environments import Environment, bernoulli, continuum, finite_types, zigzag
from service.algorithm import AdaptiveLearner, Config, Learner
from service.algorithm.adaptive import DRIFT, MOVED, MOVED_SHARE, NEWS
from service.algorithm.curve import (
    LARGE_BENDS,
    PERSISTENCE,
    PRIOR_MEAN,
    PRIOR_VARIANCE,
    STEEPNESS,
    Ball,
    Curve,
    estimate,
)
from service.algorithm.partition import MOST_BALLS
from tests.support.adaptive import learner, played


def dense_posterior(
    made: AdaptiveLearner, curve: Curve, steepness: float
) -> tuple[list[float], list[float], float, float]:
    """Means and variances, the bends and what is known of them, by inverting whole matrices.

    All that happens by chance is the mean at the first ball, the slope there, and, from each ball
    to the next, what the integral of a slope that persists over a length p and the slope itself
    change by: over the way g, p²·(2g/p − 3 + 4k − k²), p·(1 − k)² and 1 − k², with k = exp(−g/p),
    times the slope's variance. Each moves all balls to its right.
    """
    width = np.array([ball.width for ball in curve.balls])
    way = np.array([ball.centre for ball in curve.balls])
    p, balls = PERSISTENCE / max(made.model.lipschitz, 1.0), len(way)
    steep = (STEEPNESS * made.model.lipschitz) ** 2 * steepness
    chance = np.zeros((2 * balls, 2 * balls))  # of mean and slope, ball by ball
    moves = np.zeros((balls, 2 * balls))
    for ball in range(balls):
        k = math.exp(-(way[ball] - way[ball - 1]) / p) if ball else 1.0
        g = way[ball] - way[ball - 1] if ball else 0.0
        both = p * (1 - k) ** 2
        block = np.array([[p * p * (2 * g / p - 3 + 4 * k - k * k), both], [both, 1 - k * k]])
        chance[2 * ball : 2 * ball + 2, 2 * ball : 2 * ball + 2] = steep * block
        moves[ball:, 2 * ball] = 1.0
        moves[ball:, 2 * ball + 1] = p * (1 - np.exp(-(way[ball:] - way[ball]) / p))
    chance[1, 1] = steep
    prior = 1 + moves @ chance @ moves.T
    noise = made.model.variance + (made.model.lipschitz * width) ** 2 / 12
    weight = np.array([sum(ball.counts) for ball in curve.balls]) / noise + width / PRIOR_VARIANCE
    pull = np.array([sum(ball.totals) for ball in curve.balls]) / noise
    pull += PRIOR_MEAN * width / PRIOR_VARIANCE
    seen = np.linalg.inv(prior + np.diag(1 / weight))  # the inverse of what rewards spread by
    off = seen @ (pull / weight - PRIOR_MEAN)
    means = PRIOR_MEAN + prior @ off
    variances = 1 / weight - np.diag(seen) / weight**2
    square = off @ moves @ chance @ moves.T @ off
    known = np.trace(chance @ moves.T @ seen @ moves)
    return means.tolist(), variances.tolist(), float(square), float(known)


@pytest.mark.parametrize("lipschitz", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("noise, steepness", [(0.01, 1.0), (0.3, 1.0), (0.3, 0.2)])
def test_means_and_variances_are_those_of_the_process(
    noise: float, steepness: float, lipschitz: float
) -> None:
    """Two passes along the curve give what the inverse of the whole matrix gives."""
    made = learner(noise=noise, lipschitz=lipschitz, horizon=1000)
    played(made, zigzag(3, noise=noise), 300)

    def blur(ball: Ball) -> float:
        return made.model.variance + (lipschitz * ball.width) ** 2 / 12

    for curve in made.curves.values():
        slopes = lipschitz * lipschitz * steepness
        bends = estimate(curve.balls, noise=blur, lipschitz=lipschitz, slopes=slopes, scale=1.0)
        means, variances, square, known = dense_posterior(made, curve, steepness)
        assert [ball.mean for ball in curve.balls] == pytest.approx(means, rel=1e-6)
        assert [ball.variance for ball in curve.balls] == pytest.approx(variances, rel=1e-6)
        assert bends.square == pytest.approx(min(square, LARGE_BENDS * known), rel=1e-5)
        assert bends.known == pytest.approx(known, rel=1e-5)


@pytest.mark.parametrize("noise", [1e-5, 0.05, 0.5])
def test_a_curve_covers_all_contexts_in_balance(noise: float) -> None:
    """Neighbours differ by one level, unless the curve is full."""
    made = learner(arms=6, noise=noise, horizon=3000)
    played(made, zigzag(6, noise=noise), 3000)
    balls = sum(len(curve.balls) for curve in made.curves.values())
    assert made.size == balls + (len(made.curves) < 6)
    for curve in made.curves.values():
        ends = [0.0, *(ball.interval.end for ball in curve.balls)]
        assert [ball.interval.start for ball in curve.balls] == ends[:-1]
        assert ends[-1] == 1.0
        assert len(curve.balls) <= MOST_BALLS
        steps = [abs(a.interval.depth - b.interval.depth) for a, b in pairwise(curve.balls)]
        assert max(steps) <= 1 or len(curve.balls) == MOST_BALLS
        assert sum(sum(ball.counts) for ball in curve.balls) == curve.rewards


def test_no_bound_rises_faster_than_the_slope_allows() -> None:
    """From the centre of any ball to the far end of any other, but for what was too little.

    Once the curve is scored: until then a reward is felt in its own ball alone.
    """

    def left_alone(ball: Ball) -> float:
        return max(MOVED, MOVED_SHARE * (ball.ucb - ball.mean) / (1 - MOVED_SHARE))

    made = learner(arms=4, noise=0.02, horizon=2000)
    played(made, zigzag(4, noise=0.02), 500)
    for curve in made.curves.values():
        made._score(curve)
        for ball in curve.balls:
            for other in curve.balls:
                reach = abs(ball.centre - other.centre) + ball.width / 2
                assert ball.ucb <= other.ucb + reach + left_alone(ball) + left_alone(other)


@pytest.mark.parametrize("body", [{}, {"noise": 0.3, "horizon": 20_000}, {"lipschitz": 4.0}])
def test_a_crowd_without_rewards_does_not_settle_on_one_arm(body: dict[str, Any]) -> None:
    """However many plays are in flight, one more still makes a difference, or soon will."""
    made, chance = learner(arms=5, **body), random.Random(0)
    plays = Counter(made.select(chance.random()).arm for _ in range(2000))
    assert min(plays[arm] for arm in range(5)) > 200


def test_plays_in_flight_lower_the_bound_until_their_reward_is_there() -> None:
    """So that a crowd of selects does not all ask the same arm the same question."""
    made = learner(arms=2, noise=0.3, horizon=1000)
    first = made.select(0.5)
    made.reward(first, 0.9)
    curve = made.curves[0]
    bounds: list[float] = []
    open_decisions = []
    while curve.balls[curve.at(0.5)].ucb not in bounds[-1:]:
        bounds.append(curve.balls[curve.at(0.5)].ucb)
        open_decisions.append(made.select(0.5))
        if open_decisions[-1].arm != 0:
            break
    assert len(bounds) > 2
    assert sorted(bounds, reverse=True) == bounds
    mine = [decision for decision in open_decisions if decision.arm == 0]
    for decision in mine:
        made.reward(decision, 0.9)
    assert sum(sum(ball.flying) for ball in curve.balls) == 0


def test_selects_without_rewards_go_to_several_arms() -> None:
    """Nobody answers, and still not everyone is sent to the first arm."""
    made = learner(arms=10, noise=0.3, horizon=1000)
    arms = [made.select(0.5).arm for _ in range(200)]
    assert len(set(arms)) > 3


def test_a_new_arm_is_tried_while_there_is_something_to_gain() -> None:
    """Not when the best is near the top of the range; each arm when it is far from it."""
    rng = np.random.default_rng(0)
    for level, fewest, most in ((0.999, 1, 3), (0.5, 100, 100)):
        made = learner(arms=100, noise=0.001, horizon=2000)
        for x in rng.random(2000).tolist():
            decision = made.select(x)
            made.reward(decision, level)
        assert fewest <= len(made.curves) <= most


@pytest.mark.parametrize(
    "best, noise, fewest, most",
    [(0.9, 0.01, 90, 100), (0.9, 0.3, 2, 50), (0.5, 0.3, 100, 100)],
)
def test_fewer_arms_are_tried_where_that_costs_more_than_it_may_bring(
    best: float, noise: float, fewest: int, most: int
) -> None:
    """All of them where a look is enough, or misses nothing; few where it takes many that miss."""
    made = learner(arms=100, noise=noise, horizon=2000)
    chance = random.Random(1)
    for _ in range(2000):
        decision = made.select(chance.random())
        made.reward(decision, (0.5 if decision.arm else best) + chance.gauss(0, noise))
    assert fewest <= len(made.curves) <= most


def test_nothing_is_ruled_out_while_an_arm_is_untried() -> None:
    """What a trial may miss at the most: an arm that nobody knows may be worth 1."""
    made = learner(arms=3, noise=0.01, horizon=100)
    bounds = []
    while made.untried:
        decision = made.select(0.5)
        bounds.append(decision.ucb)
        made.reward(decision, 0.4)
    assert set(bounds) == {1.0}
    assert made.select(0.5).ucb < 1


def test_rewards_beyond_the_range_do_not_keep_arms_from_being_tried() -> None:
    """A tenant whose range was told wrongly still finds its best arm."""
    made = learner(arms=10)
    chance = random.Random(0)
    arms = []
    for _ in range(3000):
        decision = made.select(chance.random())
        arms.append(decision.arm)
        made.reward(decision, 5 + (decision.arm * 7) % 10 + chance.gauss(0, 0.1))
    assert len(made.curves) == 10
    assert max(set(arms[-1000:]), key=arms[-1000:].count) == 7  # (7·7) mod 10 = 9


def test_a_needle_is_found_among_many_arms() -> None:
    """One arm of two hundred is worth more; which one, nobody says."""
    made = learner(arms=200)
    chance = random.Random(0)
    needle = 150
    found = 0
    for _ in range(6000):
        decision = made.select(chance.random())
        found += decision.arm == needle
        made.reward(decision, (0.8 if decision.arm == needle else 0.5) + chance.gauss(0, 0.1))
    assert found > 4500


def test_a_curve_is_scored_when_there_is_news() -> None:
    """At its first reward, then ever more rarely: one more changes next to nothing."""
    made = learner(arms=1, noise=0.3, horizon=1000)
    scored = []
    for trial in range(2000):
        made.reward(made.select(0.5), 0.5 + 0.1 * (-1) ** trial)
        curve = made.curves[0]
        enough = NEWS * math.sqrt(min(made.model.slopes, 1.0))
        assert curve.news < enough or curve.drift <= DRIFT
        scored.append(curve.news == 0)
    assert scored[0]
    assert 5 <= sum(scored[:50]) < 50
    assert 1 <= sum(scored[-500:]) < 20


@pytest.mark.parametrize("lipschitz", ["auto", 0.5, 1.0, 4.0])
def test_plays_that_are_abandoned_teach_nothing(lipschitz: float | str) -> None:
    """Bounds that they had lowered come back, as near as bounds ever are to what they would be."""
    made = learner(arms=1, noise=0.5, lipschitz=lipschitz)
    made.reward(made.select(0.5), 0.5)
    for _ in range(3):  # what the reward has told of all curves comes to rest
        made.abandon(made.select(0.5))
    balls = made.curves[0].balls
    known = [(*ball.counts, *ball.totals, ball.mean, ball.variance) for ball in balls]
    bound = balls[made.curves[0].at(0.5)].ucb
    plays = [made.select(0.5) for _ in range(40)]
    assert balls[made.curves[0].at(0.5)].ucb < bound - 0.1
    for play in plays:
        made.abandon(play)
    assert [(*ball.counts, *ball.totals, ball.mean, ball.variance) for ball in balls] == known
    assert balls[made.curves[0].at(0.5)].ucb == bound
    for ball, ucb in zip(balls, made._bounds(balls), strict=True):
        assert abs(ball.ucb - ucb) <= MOVED_SHARE * (ucb - ball.mean)


@pytest.mark.parametrize("body", [{"noise": 0.1}, {"noise": 0.3, "lipschitz": 2.0}, {}])
def test_a_reward_is_felt_in_its_own_ball_at_once(body: dict[str, Any]) -> None:
    """The first one after a scoring tells of it what another scoring would."""
    made, compared = learner(arms=4, horizon=5000, **body), 0
    environment, rng = zigzag(4, noise=0.2), np.random.default_rng(1)
    for x in rng.random(1500).tolist():
        decision = made.select(x)
        curve = made.curves[decision.arm]
        balls, fresh = len(curve.balls), curve.news == 0 and curve.step == made.model.step
        made.reward(decision, environment.reward(rng, x, decision.arm))
        if fresh and len(curve.balls) == balls and curve.news > 0 and curve.step == made.model.step:
            ball, scored = curve.balls[curve.at(x)], deepcopy(curve.balls)
            made._estimate(scored)
            expected = scored[curve.at(x)]
            assert ball.mean == pytest.approx(expected.mean, rel=1e-9)
            assert ball.variance == pytest.approx(expected.variance, rel=1e-9)
            compared += 1
    assert compared > 20


def test_a_bound_that_others_hold_down_rises_with_its_own_ball_alone() -> None:
    """It falls to what the ball has by itself, and rises by as much as that does."""
    made = learner(arms=1, noise=0.3, horizon=1000)
    made.reward(made.select(0.5), 0.5)
    ball = made.curves[0].balls[0]
    for reward, falls in ((2.0, False), (0.4, True)):
        alone = made._ucb(ball)
        ball.ucb = held = alone - 0.1
        made._learn_here(ball, reward)
        now = made._ucb(ball)
        assert (now < alone) == falls
        assert ball.ucb == pytest.approx(now if falls else held + now - alone)
    ball.ucb = made._ucb(ball) + 0.5
    made._learn_here(ball, 0.5)
    assert ball.ucb == made._ucb(ball)


def test_halves_of_a_ball_have_its_bound_until_they_are_scored() -> None:
    """Nothing is known of them that was not known of it."""
    made = learner(arms=2, noise=0.3, horizon=1000)
    chance, seen = random.Random(0), 0
    for _ in range(400):
        x = chance.random()
        decision = made.select(x)
        curve = made.curves[decision.arm]
        bounds = {ball.interval: ball.ucb for ball in curve.balls}
        made.reward(decision, 0.5 + chance.gauss(0, 0.3))
        if curve.news > 0:
            here = curve.balls[curve.at(x)]
            for ball in curve.balls:
                if ball.interval not in bounds and ball is not here:
                    ends = (ball.interval.start, ball.interval.end)
                    parents = [w for w in bounds if w.start <= ends[0] and ends[1] <= w.end]
                    assert ball.ucb == bounds[parents[0]]
                    seen += 1
    assert seen > 5


def test_no_new_arm_is_tried_at_the_end() -> None:
    """What is left of the horizon counts, not how long it was."""
    made = learner(arms=500, noise=0.01, horizon=100_000)
    played(made, zigzag(500, noise=0.01), 50)
    assert made.select(0.5).phase == "flagged"
    made.model.rewards = 99_999
    assert made.select(0.5).phase == "active"


ENVIRONMENTS = {
    "zigzag": zigzag(40, noise=0.05),
    "continuum": continuum(30, noise=0.2, lipschitz=0.5),
    "types": finite_types(60, types=4, noise=0.1, lipschitz=1.0, seed=3),
    "Bernoulli": bernoulli(zigzag(10, noise=0.0)),
}


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_it_learns_several_times_as_fast_as_the_papers_simulation(environment: Environment) -> None:
    """Told nothing, against a learner that is told noise, horizon and slope."""
    trials = 4000
    told = Learner(
        Config.resolve(
            arms=environment.arms,
            noise=environment.noise,
            horizon=trials,
            lipschitz=environment.lipschitz,
        )
    )
    ours = played(learner(arms=environment.arms), environment, trials)
    assert ours < played(told, environment, trials) / 3
