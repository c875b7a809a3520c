"""The traffic is what was asked for: Poisson arrivals, delays, losses, all from a seed."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from loadtest.environments import zigzag
from loadtest.traffic import BLOCK, Delay, Traffic, Trial

TRAFFIC = Traffic(
    environment=zigzag(5, noise=0.1),
    seed=np.random.SeedSequence(1),
    rate=200.0,
    tenants=3,
    delay=Delay.parse("exponential:0.5"),
    lost=0.05,
    duplicates=0.2,
)
MANY = 20_000


def drawn(traffic: Traffic = TRAFFIC, *, trials: int = MANY) -> list[Trial]:
    """The first so many trials."""
    return list(islice(traffic.trials(), trials))


def test_arrivals_are_a_poisson_stream_of_the_rate() -> None:
    """Gaps have the mean 1/rate and, being exponential, a standard deviation as large.

    With 20,000 gaps either is off by more than 4 % only once in 10,000 seeds.
    """
    gaps = np.array([b.at_seconds - a.at_seconds for a, b in pairwise(drawn())])
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.04)
    assert gaps.std() == pytest.approx(1 / 200, rel=0.04)
    assert gaps.min() >= 0
    # One gap says nothing about the next, across the seams of the blocks too.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.03
    assert gaps[BLOCK - 1 :: BLOCK].max() < 10 / 200


def test_a_closed_loop_plans_no_times() -> None:
    """Its clients begin when they can."""
    assert {trial.at_seconds for trial in drawn(replace(TRAFFIC, rate=None))} == {0.0}


def test_tenants_contexts_losses_and_duplicates_have_their_shares() -> None:
    """Each within about five standard deviations."""
    trials = drawn()
    assert np.mean([trial.lost for trial in trials]) == pytest.approx(0.05, abs=0.008)
    assert np.mean([trial.duplicated for trial in trials]) == pytest.approx(0.2, abs=0.015)
    assert np.mean([trial.context for trial in trials]) == pytest.approx(0.5, abs=0.01)
    shares = np.bincount([trial.tenant for trial in trials]) / MANY
    assert shares == pytest.approx([1 / 3] * 3, abs=0.02)


def test_a_trial_knows_the_mean_reward_of_every_arm() -> None:
    """Those of the environment at its context."""
    for trial in drawn(trials=10):
        assert trial.means == pytest.approx(TRAFFIC.environment.means(trial.context))


def test_the_same_seed_gives_the_same_trials_and_another_one_others() -> None:
    """All but the means, which follow from the context."""
    first, again = (list(map(_but_means, drawn(trials=3000))) for _ in range(2))
    other = drawn(replace(TRAFFIC, seed=np.random.SeedSequence(2)), trials=3000)
    assert first == again
    assert not set(first) & set(map(_but_means, other))


@pytest.mark.parametrize(
    "spec, mean, spread",
    [
        ("2", 2.0, 0.0),
        ("fixed:0.5", 0.5, 0.0),
        ("exponential:0.5", 0.5, 0.5),
        ("uniform:1,3", 2.0, 2 / 12**0.5),
        ("lognormal:2,0.5", 2 * np.exp(0.125), 1.208),
    ],
)
def test_delays_have_their_mean_and_spread(spec: str, mean: float, spread: float) -> None:
    """And survive being written down and read again."""
    delay = Delay.parse(spec)
    delays = delay.draw(np.random.default_rng(3), size=MANY)
    assert delays.mean() == pytest.approx(mean, rel=0.04)
    assert delays.std() == pytest.approx(spread, rel=0.06)
    assert Delay.parse(str(delay)) == delay


@pytest.mark.parametrize(
    "spec", ["", "soon", "fixed:", "gamma:1", "exponential:1,2", "uniform:3,1", "-1", "inf", "nan"]
)
def test_a_delay_that_cannot_be_read_is_refused(spec: str) -> None:
    """With the text that was given."""
    with pytest.raises(ValueError, match=f"delay.*'{spec}'"):
        Delay.parse(spec)


def _but_means(trial: Trial) -> tuple[object, ...]:
    return tuple(value for name, value in trial._asdict().items() if name != "means")
