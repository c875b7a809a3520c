"""The formulas of a ball's constants, at points computed by hand."""

import math

import pytest

from service.algorithm import Config, Interval, Parameters

LN_T = math.log(1000)


def test_paper_preset_is_the_paper() -> None:
    """ALGORITHM.md, section 6."""
    p = Parameters.resolve(preset="paper", horizon=1000, noise=0.5, lipschitz=2.0)
    assert (p.buckets, p.neighbours, p.grid, p.max_depth, p.patience) == (64, None, 200, 20, 4)
    assert (p.confidence_coefficient, p.diameter_coefficient, p.cluster_ratio) == (6, 2, 3 / 16)
    assert p.flag_coefficient == 6 * 0.25 / 4
    assert p.sampling == "round_robin"


def test_simulation_preset_differs_in_three_points() -> None:
    """Section 7."""
    paper = Parameters.resolve(preset="paper", horizon=1000, noise=0.5)
    simulation = Parameters.resolve(preset="simulation", horizon=1000, noise=0.5)
    differing = {
        name: getattr(simulation, name)
        for name in Parameters.__dataclass_fields__
        if getattr(simulation, name) != getattr(paper, name)
    }
    assert differing == {"buckets": 1, "neighbours": 26, "flag_coefficient": 4.0}


def test_an_override_wins_and_none_leaves_the_preset() -> None:
    """As in a tenant's configuration."""
    p = Parameters.resolve("simulation", horizon=10, noise=0.1, neighbours=None, grid=7)
    assert (p.neighbours, p.grid) == (26, 7)


def test_constants_of_a_ball() -> None:
    """Bias, confidence, flagging threshold and k of a ball of width 1/4."""
    p = Parameters.resolve(preset="paper", horizon=1000, noise=0.1, lipschitz=2.0)
    assert p.bias(0.25) == 2 * 2.0 * 0.25
    assert p.confidence == pytest.approx(6 * 0.01 * LN_T)
    assert p.flag_at(2) == pytest.approx(6 * 0.01 / 4 * LN_T * 16)
    assert p.neighbours_for(arms=50, width=0.25) == math.ceil(
        5431 * 0.01 * math.log(50_000) / (4 * 0.0625)
    )
    assert p.neighbours_for(arms=50, width=1.0) < p.neighbours_for(arms=50, width=0.5)
    assert p.issue_limit(3) == 4 * 3 * 64


def test_no_noise_needs_one_sample_a_cell() -> None:
    """k is at least 1."""
    p = Parameters.resolve(preset="paper", horizon=1000, noise=0.0)
    assert p.neighbours_for(arms=50, width=0.25) == 1


def test_a_ball_of_the_greatest_depth_is_never_flagged() -> None:
    """Whatever its number of rewards."""
    p = Parameters.resolve("simulation", horizon=1000, noise=0.1, max_depth=3)
    assert p.flag_at(2) < math.inf
    assert p.flag_at(3) == math.inf


def test_only_learned_balls_of_several_arms_need_samples() -> None:
    """A single arm has no distances, and given ones need no samples."""
    learned = Config.resolve(arms=3, horizon=10, noise=0.1)
    given = Config.resolve(arms=3, horizon=10, noise=0.1, similarity={"kind": "none"})
    assert (learned.needs_samples(3), learned.needs_samples(1)) == (True, False)
    assert not given.needs_samples(3)


@pytest.mark.parametrize(
    "x, depth, index",
    [(0.0, 3, 0), (1.0, 3, 7), (0.5, 1, 1), (0.125, 3, 1), (0.1249999, 3, 0), (1.0, 0, 0)],
)
def test_interval_of_a_context(x: float, depth: int, index: int) -> None:
    """Half-open on the right, but for the last."""
    assert Interval.holding(x, depth=depth) == (depth, index)


def test_halves_and_buckets() -> None:
    """An edge belongs to what begins there."""
    interval = Interval(1, 1)
    assert interval.halves == (Interval(2, 2), Interval(2, 3))
    assert [interval.half_of(x) for x in (0.5, 0.74, 0.75, 1.0)] == [0, 0, 1, 1]
    assert [interval.bucket_of(x, buckets=4) for x in (0.5, 0.62, 0.625, 0.99, 1.0)] == [
        0, 0, 1, 3, 3,
    ]  # fmt: skip
