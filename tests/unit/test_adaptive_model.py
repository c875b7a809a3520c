"""What the preset `adaptive` learns beyond single arms: noise, slope, steepness, horizon."""

import math
import random
from typing import Any

import numpy as np
import pytest

from loadtest.environments import bernoulli, finite_types, zigzag
from loadtest.simulation.ablations import NoSteepness
from service.algorithm import AdaptiveConfig, AdaptiveLearner
from service.algorithm.config import FIRST_HORIZON
from service.algorithm.curve import Ball, Bends
from service.algorithm.intervals import Interval
from service.algorithm.model import (
    AHEAD,
    CAUTIOUS,
    FEW_REWARDS,
    FLATTEST,
    FLATTEST_OF_FEW,
    MOST_BENT,
    STEEPEST,
)
from tests.support.adaptive import learner, played


@pytest.mark.parametrize("sigma", [0.0, 0.01, 0.1, 0.5])
def test_the_noise_is_learned(sigma: float) -> None:
    """Within a factor of two after two thousand rewards; without any it becomes small."""
    made = learner(arms=10)
    played(made, zigzag(10, noise=sigma), 2000)
    learned = math.sqrt(made.model.variance)
    if sigma:
        assert sigma / 2 < learned < 2 * sigma
    else:
        assert learned < 0.01


@pytest.mark.parametrize("worth", [0.05, 0.5, 0.9])
def test_the_noise_of_0_and_1_is_learned_for_a_mean_of_a_half(worth: float) -> None:
    """The best arms, which are played most, may have little noise; that is theirs alone."""
    learned = []
    for seed in range(5):
        made = learner(arms=5, lipschitz=1.0)
        chance = random.Random(seed)
        for _ in range(2000):
            made.reward(made.select(chance.random()), float(chance.random() < worth))
        learned.append(math.sqrt(made.model.variance))
    assert 0.35 < sorted(learned)[2] < 0.7


def test_rewards_that_are_sure_to_be_0_or_1_have_no_noise() -> None:
    model = learner(arms=2).model
    ball = Ball(0, Interval(3, 0), 0, counts=[3.0, 0.0], totals=[3.0, 0.0], mean=0.98)
    for _ in range(5):
        model.learn_noise(ball, 1.0, weight=1.0)
    assert model.variance < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_a_few_wild_rewards_do_not_spoil_the_noise(seed: int) -> None:
    """One in a hundred is off by ten, which alone is a standard deviation of 1.

    (L is told: taken for steepness, they would raise it.)
    """
    made = learner(arms=5, lipschitz=1.0)
    chance = random.Random(seed)
    for _ in range(3000):
        decision = made.select(chance.random())
        wild = 10.0 if chance.random() < 0.01 else 0.0
        made.reward(decision, 0.5 + chance.gauss(0, 0.1) + wild)
    assert 0.05 < math.sqrt(made.model.variance) < 0.6


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize("arms", [1, 3, 20])
def test_the_slope_is_learned(arms: int, noise: float, told: bool) -> None:
    """Steep curves show themselves, gentle ones are not taken for steep."""
    steep = finite_types(arms, types=min(arms, 10), noise=noise, lipschitz=8.0, seed=3)
    for environment, least, most in ((steep, 2.0, 16.0), (zigzag(arms, noise=noise), 1.0, 1.5)):
        made = learner(arms=arms, noise=noise if told else "auto")
        played(made, environment, 2000)
        assert least <= made.model.lipschitz <= most


def test_what_is_learned_of_the_slope_has_an_end() -> None:
    """Rewards without any sense would raise it for ever."""
    made = learner(arms=3, noise=0.001)
    chance = random.Random(0)
    for _ in range(3000):
        made.reward(made.select(chance.random()), chance.random())
    assert made.model.lipschitz == STEEPEST


def test_where_noise_would_hide_a_slope_it_is_taken_to_be_steeper() -> None:
    """Unless it is told, and only for as long as rewards are taken to be that loud."""
    assert learner(arms=3, noise=0.3).model.lipschitz == CAUTIOUS
    assert learner(arms=3, noise=0.3, lipschitz=1.0).model.lipschitz == 1.0
    assert learner(arms=3, noise=0.01).model.lipschitz == 1.0
    model = learner(arms=3).model
    ball = Ball(1, Interval(0, 0), arm=0, counts=[5.0, 5.0], totals=[2.5, 2.5])
    for reward, taken in ((0.5, 1.0), (0.8, CAUTIOUS), (0.501, 1.0)):
        for _ in range(100):
            model.learn_noise(ball, reward, weight=1.0)
        assert model.lipschitz == taken


def test_where_noise_would_hide_a_slope_all_is_played_as_if_it_were_told_to_be_steeper() -> None:
    """The caution is in everything that depends on L, but for being able to raise it."""
    learners = [
        learner(arms=30, noise=0.3, horizon=2000, lipschitz=lipschitz)
        for lipschitz in ("auto", CAUTIOUS, 1.0)
    ]
    cautious, told, less = (played(made, zigzag(30, noise=0.3), 2000) for made in learners)
    assert learners[0].model.shown_lipschitz == 1.0
    assert cautious == told != less


@pytest.mark.parametrize("told", [{"noise": 0.3}, {}])
def test_where_noise_hides_a_slope_bends_tell_it(told: dict[str, Any]) -> None:
    """Curves that are four times as steep are seen to be, and those of slope 1 are not."""

    def steep(x: float) -> float:
        return 1 - abs(1 - 4 * x % 2)

    learned = []
    for fold in (steep, float):
        made, environment = learner(arms=20, **told), zigzag(20, noise=0.3)
        rng = np.random.default_rng(0)
        for x in rng.random(8000).tolist():
            decision = made.select(x)
            made.reward(decision, environment.reward(rng, fold(x), decision.arm))
        learned.append(made.model.shown_lipschitz)
    assert learned[0] > 1.3 * CAUTIOUS
    assert learned[1] == 1.0


def test_what_a_retired_arm_has_told_of_bends_goes_with_it() -> None:
    """Nothing could bring it up to date any more."""
    made = learner(arms=4, noise=0.1, horizon=2000)
    played(made, zigzag(4, noise=0.1), 500)
    for arm in range(3):
        made.retire(arm)
    left = made.curves[3].bends
    assert left.known > 0
    assert made.model.bends_known == pytest.approx(left.known)
    assert made.model.bend_squares == pytest.approx(left.square)


def test_rewards_of_0_or_1_with_noise_to_learn_tell_no_slope() -> None:
    """They are taken for less noisy than they are, and curves for more bent."""
    for noise, shown in (("auto", 1.0), (0.5, CAUTIOUS * math.sqrt(2))):
        model = learner(noise=noise).model
        model.variance, model.loudest, model.steepness = 0.2, 0.2, MOST_BENT
        model.learn_steepness(
            Bends(), Bends(square=300.0, known=300.0), curves=0, arms=50, arms_ever=0
        )
        assert model.shown_lipschitz == shown


def test_caution_makes_slopes_no_larger_where_the_noise_is_not_known() -> None:
    """That of rewards of 0 or 1 is not, while it is learned; they are taken for too bent anyway."""
    model = learner(arms=3).model
    ball = Ball(1, Interval(0, 0), arm=0, mean=0.5, counts=[5.0, 5.0], totals=[5.0, 5.0])
    for _ in range(100):
        model.learn_noise(ball, 0.0, weight=1.0)
    assert model.lipschitz == CAUTIOUS
    assert model.slopes == model.steepness
    model.count(0.5, is_first=False)
    assert model.slopes == CAUTIOUS**2 * model.steepness


def test_the_steepness_goes_to_and_fro_no_faster_than_rewards_come() -> None:
    """Each move has all curves scored again."""
    model = learner(arms=50, noise=0.1, lipschitz=1.0).model
    flat, bent = Bends(square=0.0, known=300.0), Bends(square=300.0, known=300.0)
    seen = []
    for rewards, before, now in (
        (1000, Bends(), flat),
        (1001, flat, bent),
        (1101, bent, bent),
        (1102, bent, flat),
    ):
        model.rewards = rewards
        model.learn_steepness(before, now, curves=0, arms=50, arms_ever=50)
        seen.append(model.steepness)
    assert seen == [0.5, 0.5, 1.0, 1.0]
    assert model.step == 2


@pytest.mark.parametrize("told", [{"noise": 0.1}, {}])
def test_what_may_be_noise_makes_no_curve_steeper(told: dict[str, Any]) -> None:
    """Flatter it may be taken to be before the noise is known, but not steeper again."""
    model = learner(arms=50, lipschitz=1.0, **told).model
    flat, bent = Bends(square=0.0, known=300.0), Bends(square=300.0, known=300.0)
    model.learn_steepness(Bends(), flat, curves=0, arms=50, arms_ever=50)
    assert model.steepness == 0.5
    model.rewards = 1000
    model.learn_steepness(flat, bent, curves=0, arms=50, arms_ever=50)
    assert model.steepness == (1.0 if told else 0.5)
    model.loudest = model.variance
    model.learn_steepness(bent, bent, curves=0, arms=50, arms_ever=50)
    assert model.steepness == 1.0


def test_a_slope_that_is_told_stays() -> None:
    made = learner(arms=20, lipschitz=0.5)
    played(made, finite_types(20, types=10, noise=0.01, lipschitz=8.0, seed=3), 2000)
    assert made.model.lipschitz == 0.5


def test_how_steep_curves_are_is_learned() -> None:
    """Those as steep as L all along are taken for steep, flat ones for flat, whatever L is told."""
    for environment, lipschitz, least, most in (
        (zigzag(30, noise=0.1), 1.0, 1.0, MOST_BENT),
        (finite_types(30, types=5, noise=0.1, lipschitz=1.0, seed=3), 1.0, 2 * FLATTEST, 0.5),
        (zigzag(30, noise=0.1), 8.0, FLATTEST, 2 * FLATTEST),
    ):
        made = learner(arms=30, noise=0.1, lipschitz=lipschitz, horizon=5000)
        played(made, environment, 5000)
        assert least <= made.model.steepness <= most


def test_curves_are_never_taken_for_quite_flat() -> None:
    """However many arms are known to be, where they are known."""
    made = learner(arms=200, noise=0.1, lipschitz=4.0)
    for trial in range(4000):
        decision = made.select(trial % 101 / 101)
        made.reward(decision, 0.5)
    assert made.model.bend_squares < made.model.bends_known / 10
    assert made.model.steepness == FLATTEST


def test_few_arms_are_taken_for_flatter_than_a_crowd_but_for_flat_only_late() -> None:
    """Of a crowd the same curves are taken for as steep as they may be, and flat ones for flat."""
    steepness = []
    for arms in (10, 100):
        made = learner(arms=arms, noise=0.1, lipschitz=1.0, horizon=5000)
        played(made, zigzag(arms, noise=0.1), 5000)
        steepness.append(made.model.steepness)
    assert steepness[0] < 1.0 <= steepness[1]
    few, crowd = (learner(arms=arms, noise=0.1, lipschitz=1.0) for arms in (5, 50))
    for made in (few, crowd):
        for trial in range(FEW_REWARDS):
            made.reward(made.select(trial % 101 / 101), 0.5)
    assert few.model.steepness == FLATTEST_OF_FEW
    assert crowd.model.steepness < FLATTEST_OF_FEW
    for trial in range(3 * FEW_REWARDS):
        few.reward(few.select(trial % 101 / 101), 0.5)
    assert few.model.steepness < FLATTEST_OF_FEW


def test_flat_arms_are_told_apart_in_fewer_trials() -> None:
    """With steepness learned the regret is less than half of that without."""
    regrets = []
    for kind in (AdaptiveLearner, NoSteepness):
        made = kind(AdaptiveConfig.resolve(arms=100, noise=0.1, lipschitz=4.0, horizon=5000))
        chance = random.Random(1)
        regret = 0.0
        for _ in range(5000):
            decision = made.select(chance.random())
            mean = decision.arm % 10 / 10
            regret += 0.9 - mean
            made.reward(decision, mean + chance.gauss(0, 0.1))
        regrets.append(regret)
    assert regrets[0] < regrets[1] / 2


def test_wild_rewards_leave_what_is_known_of_bends_finite() -> None:
    made = learner(arms=5)
    chance = random.Random(0)
    for trial in range(400):
        made.reward(made.select(chance.random()), 1e12 if trial % 100 == 50 else chance.random())
    curves = made.curves.values()
    assert made.model.bend_squares == pytest.approx(sum(c.bends.square for c in curves))
    assert made.model.bends_known == pytest.approx(sum(c.bends.known for c in curves))
    assert FLATTEST <= made.model.steepness <= MOST_BENT


def test_rewards_of_0_or_1_have_the_noise_of_their_mean() -> None:
    """The nearer to 0 or 1 the less; of one in between, or hardly known, all there may be."""
    made = learner(arms=3, noise=0.5, lipschitz=1.0)
    noises = []
    for mean, variance in (
        (0.5, 0.0001),
        (0.2, 0.2),
        (0.7, 0.2),
        (0.1, 0.0001),
        (0.9, 0.0001),
        (1.2, 0.0001),
    ):
        ball = Ball(0, Interval(10, 0), 0, mean=mean, variance=variance)
        noises.append(made.model.noise(ball))
    assert noises == pytest.approx([0.25, 0.25, 0.25, 0.89 * 0.11, 0.89 * 0.11, 0.01], abs=1e-6)


def test_a_smaller_noise_that_is_told_holds_for_0_and_1_too() -> None:
    model = learner(arms=3, noise=0.2, lipschitz=1.0).model
    near_1, between = (
        Ball(0, Interval(10, 0), 0, mean=mean, variance=1e-12) for mean in (0.98, 0.7)
    )
    assert model.reward_variance(near_1) == pytest.approx(0.98 * 0.02, abs=1e-5)
    assert model.reward_variance(between) == pytest.approx(0.2**2)


def test_the_first_rewards_of_0_or_1_rule_no_arm_out() -> None:
    """Told nothing: until their noise is learned there is some, and an arm that began with a 0 is
    tried again. Over 30 lives of four arms the regret is less than twice that of one who is told
    (1.7 times; 2.7 times if the first rewards were taken for sure).
    """
    regrets = []
    for told in ({}, {"noise": 0.5, "lipschitz": 1.0, "horizon": 400}):
        environment = bernoulli(zigzag(4, noise=0.0))
        lives = [played(learner(arms=4, **told), environment, 400, seed) for seed in range(30)]
        regrets.append(sum(lives) / len(lives))
    assert regrets[0] < 2 * regrets[1]


def test_one_reward_between_0_and_1_ends_it() -> None:
    """Then the noise is what was told, and all bounds move."""
    made = learner(arms=3, noise=0.3, lipschitz=1.0)
    played(made, bernoulli(zigzag(3, noise=0.0)), 200)
    before, step = made.model.binary, made.model.step
    made.reward(made.select(0.5), 0.5)
    assert (before, made.model.binary) == (True, False)
    assert made.model.step == step + 1
    ball = Ball(0, Interval(10, 0), 0, mean=0.9, variance=0.0001)
    assert made.model.noise(ball) == pytest.approx(0.3**2, abs=1e-6)


def test_without_a_horizon_it_grows_with_the_past() -> None:
    """In powers of two, and all curves come up to date in time."""
    made = learner(arms=5, noise=0.1)
    assert made.model.horizon == FIRST_HORIZON
    played(made, zigzag(5, noise=0.1), 1000)
    assert made.model.horizon == AHEAD * 1024
    assert {curve.step for curve in made.curves.values()} == {made.model.step}


def test_a_horizon_that_is_over_is_doubled() -> None:
    made = learner(arms=5, noise=0.1, horizon=300)
    for trials, taken in ((299, 300), (1, 600), (300, 1200)):
        played(made, zigzag(5, noise=0.1), trials)
        assert made.model.horizon == taken
