"""The environments are the yardstick of every learning result: checked by hand and on a grid."""

import pickle
from collections import Counter

import numpy as np
import pytest

from loadtest.environments import (
    Environment,
    bernoulli,
    continuum,
    finite_types,
    permuted,
    zigzag,
)

EVERY_KIND = {
    "zigzag": zigzag(50, noise=1e-5),
    "zigzag, one arm": zigzag(1, noise=0.1),
    "continuum": continuum(20, noise=0.1, lipschitz=0.7),
    "finite types": finite_types(30, types=4, noise=0.1, lipschitz=1.0, seed=1),
    "finite types, steep": finite_types(30, types=4, noise=0.1, lipschitz=6.0, seed=2),
    "bernoulli": bernoulli(finite_types(12, types=12, noise=0.1, lipschitz=2.0, seed=3)),
    "permuted": permuted(zigzag(33, noise=0.1), seed=4),
}


@pytest.mark.parametrize("env", EVERY_KIND.values(), ids=EVERY_KIND.keys())
class TestEveryKind:
    def test_means_are_lipschitz_with_values_in_the_unit_interval(self, env: Environment) -> None:
        # 1009 steps: a prime, so that the grid hits none of a polyline's knots between the ends.
        grid = np.linspace(0.0, 1.0, 1010)
        means = env.means(grid)
        assert means.shape == (1010, env.arms)
        assert means.min() >= -1e-12
        assert means.max() <= 1.0 + 1e-12
        steepest = np.abs(np.diff(means, axis=0)).max() * 1009
        assert steepest <= env.lipschitz * (1.0 + 1e-9)

    def test_one_context_gives_what_many_give(self, env: Environment) -> None:
        xs = np.array([0.0, 0.124, 0.125, 0.5, 0.77, 1.0])
        for x, means, best in zip(xs, env.means(xs), env.optimum(xs), strict=True):
            assert env.means(float(x)).shape == (env.arms,)
            assert np.array_equal(env.means(float(x)), means)
            assert float(env.optimum(float(x))) == best == means.max()

    def test_curves_are_the_means_on_an_even_grid(self, env: Environment) -> None:
        curves = env.curves(5)
        assert curves.shape == (env.arms, 5)
        assert np.array_equal(curves, env.means([0.0, 0.25, 0.5, 0.75, 1.0]).T)

    def test_the_same_generator_gives_the_same_rewards(self, env: Environment) -> None:
        def rewards(seed: int) -> list[float]:
            rng = np.random.default_rng(seed)
            return [env.reward(rng, x, t % env.arms) for t, x in enumerate(rng.random(50))]

        assert rewards(1) == rewards(1)
        assert rewards(1) != rewards(2)

    def test_a_copy_sent_to_another_process_is_the_same(self, env: Environment) -> None:
        copy = pickle.loads(pickle.dumps(env))  # noqa: S301 - our own bytes
        assert np.array_equal(copy.curves(20), env.curves(20))


class TestZigzag:
    def test_follows_the_formula(self) -> None:
        # θ = 0, ¼, ½, ¾, 1 lie 0, ¼, 0, ¼, 0 from the nearest of {0, ½, 1}: φ = 0, 1, 0, 1, 0.
        env = zigzag(5, noise=0.1)
        assert env.features["theta"].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert env.features["phi"].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]
        assert env.means(0.25).tolist() == [0.75, 0.25, 0.75, 0.25, 0.75]
        assert env.lipschitz == 1.0

    def test_follows_the_formula_between_the_corners(self) -> None:
        # K = 11: θ_3 = 0.3 lies 0.2 from ½, φ_3 = 0.8; θ_9 = 0.9 lies 0.1 from 1, φ_9 = 0.4.
        means = zigzag(11, noise=0.1).means(0.5)
        assert means[3] == pytest.approx(0.7, abs=1e-15)
        assert means[9] == pytest.approx(0.9, abs=1e-15)

    def test_a_single_arm_sits_at_zero(self) -> None:
        env = zigzag(1, noise=0.1)
        assert env.features["theta"].tolist() == [0.0]
        assert env.means(0.25).tolist() == [0.75]

    def test_each_curve_is_shared_by_up_to_four_arms(self) -> None:
        # θ, ½ − θ, ½ + θ and 1 − θ have one φ. At the turns fewer: φ = 0 at 0, ½, 1; φ = 1 at ¼, ¾.
        curves = zigzag(201, noise=0.1).curves(50).round(12)
        sharing = Counter(Counter(map(tuple, curves)).values())
        assert sharing == {4: 49, 3: 1, 2: 1}
        assert 4 * 49 + 3 + 2 == 201

    def test_with_arms_to_spare_the_optimum_is_near_one(self) -> None:
        # K = 50: φ goes up by 4/49 an arm and comes down on the values in between, so there is a
        # peak at each multiple of 2/49 and no context is farther than 1/49 from one.
        grid = np.linspace(0.0, 1.0, 2001)
        optimum = zigzag(50, noise=0.1).optimum(grid)
        assert optimum.shape == (2001,)
        assert optimum.min() >= 1.0 - 1 / 49 - 1e-12
        assert optimum.mean() == pytest.approx(0.990, abs=5e-4)  # ALGORITHM.md, section 7


class TestContinuum:
    def test_follows_the_formula(self) -> None:
        env = continuum(3, noise=0.1, lipschitz=0.5)
        assert env.features["theta"].tolist() == [0.0, 0.5, 1.0]
        assert env.means(0.25).tolist() == [0.875, 0.875, 0.625]

    @pytest.mark.parametrize("lipschitz", [0.0, -1.0, 1.5, float("nan")])
    def test_refuses_slopes_that_leave_the_unit_interval(self, lipschitz: float) -> None:
        with pytest.raises(ValueError, match="lipschitz"):
            continuum(3, noise=0.1, lipschitz=lipschitz)


class TestFiniteTypes:
    def test_there_are_just_so_many_curves_evenly_shared(self) -> None:
        env = finite_types(30, types=4, noise=0.1, lipschitz=1.0, seed=7)
        sharing = Counter(map(tuple, env.curves(100)))
        assert sorted(sharing.values()) == [7, 7, 8, 8]

    def test_the_type_tells_the_curve(self) -> None:
        env = finite_types(30, types=4, noise=0.1, lipschitz=1.0, seed=7)
        types, curves = env.features["type"], env.curves(100)
        same_type = types[:, np.newaxis] == types
        same_curve = (curves[:, np.newaxis] == curves).all(axis=2)
        assert np.array_equal(same_type, same_curve)

    def test_the_seed_decides_everything(self) -> None:
        first, again, other = (
            finite_types(30, types=4, noise=0.1, lipschitz=1.0, seed=s).curves(100)
            for s in (1, 1, 2)
        )
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    @pytest.mark.parametrize("types", [0, 31])
    def test_refuses_a_number_of_types_that_cannot_be(self, types: int) -> None:
        with pytest.raises(ValueError, match="types"):
            finite_types(30, types=types, noise=0.1, lipschitz=1.0, seed=1)


class TestRewards:
    def test_gaussian_rewards_have_the_mean_and_the_noise(self) -> None:
        env, rng = zigzag(5, noise=0.2), np.random.default_rng(5)
        rewards = np.array([env.reward(rng, 0.25, 1) for _ in range(20_000)])
        # Five standard errors: 0.2/√n for the mean, 0.2/√(2n) for the standard deviation.
        assert rewards.mean() == pytest.approx(0.25, abs=5 * 0.2 / 20_000**0.5)
        assert rewards.std() == pytest.approx(0.2, abs=5 * 0.2 / 40_000**0.5)

    def test_without_noise_a_reward_is_the_mean(self) -> None:
        env = zigzag(5, noise=0.0)
        assert env.reward(np.random.default_rng(1), 0.25, 1) == 0.25

    def test_bernoulli_rewards_are_zero_or_one_with_the_same_mean(self) -> None:
        env, rng = bernoulli(zigzag(5, noise=0.0)), np.random.default_rng(6)
        rewards = [env.reward(rng, 0.25, 1) for _ in range(20_000)]
        assert set(rewards) == {0.0, 1.0}
        # Hoeffding: a mean of 20,000 is off by 0.02 with probability at most 2·exp(−16) < 3e-7.
        assert np.mean(rewards) == pytest.approx(0.25, abs=0.02)

    def test_bernoulli_keeps_the_means_and_states_its_noise(self) -> None:
        plain = zigzag(5, noise=0.0)
        assert np.array_equal(bernoulli(plain).curves(30), plain.curves(30))
        assert bernoulli(plain).noise == 0.5


class TestPermuted:
    def test_holds_the_same_arms_in_another_order(self) -> None:
        env = zigzag(33, noise=0.1)
        shuffled = permuted(env, seed=8)
        assert sorted(map(tuple, shuffled.curves(40))) == sorted(map(tuple, env.curves(40)))
        assert not np.array_equal(shuffled.curves(40), env.curves(40))

    def test_the_features_move_with_their_arms(self) -> None:
        shuffled = permuted(zigzag(33, noise=0.1), seed=8)
        assert np.array_equal(shuffled.means(0.0), 1.0 - shuffled.features["phi"])
        assert sorted(shuffled.features["theta"]) == [a / 32 for a in range(33)]

    def test_the_optimum_stays(self) -> None:
        env, grid = (
            finite_types(30, types=4, noise=0.1, lipschitz=1.0, seed=7),
            np.linspace(0.0, 1.0, 99),
        )
        assert np.array_equal(permuted(env, seed=9).optimum(grid), env.optimum(grid))

    def test_the_seed_decides_the_order(self) -> None:
        env = continuum(20, noise=0.1, lipschitz=1.0)
        first, again, other = (permuted(env, seed=seed).features["theta"] for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)
