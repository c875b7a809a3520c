"""The sub-partition against the specification written out as loops (ALGORITHM.md, section 5)."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.environments import zigzag
from service.algorithm import SAMPLE, Config, Interval, sub_partition

Rows = list[tuple[int, float, float]]


def literal_clusters(
    distance: Any, arms: int, radius: float, alone: frozenset[int] = frozenset()
) -> list[int]:
    """Steps 3 and 4, as they are written."""
    centres: list[int] = []
    labels: list[int] = []
    for arm in range(arms):
        gaps = [(distance(arm, c), c) for c in centres if c not in alone and arm not in alone]
        least = min((gap for gap, _ in gaps), default=math.inf)
        if least <= radius + 1e-12:
            nearest = next(c for gap, c in gaps if gap <= least + 1e-12)
            labels.append(centres.index(nearest))
        else:
            centres.append(arm)
            labels.append(len(centres) - 1)
    return labels


def literal_estimate(rows: Rows, arm: int, k: int, z: float) -> float:
    """Step 1: the mean of the k nearest, by the rule of the window."""
    mine = sorted((x, place, r) for place, (a, x, r) in enumerate(rows) if a == arm)
    start = sum((mine[j][0] + mine[j + k][0]) / 2 < z for j in range(len(mine) - k))
    return math.fsum(r for _, _, r in mine[start : start + k]) / k


def literal_sub_partition(config: Config, interval: Interval, rows: Rows, k: int) -> Any:
    """Section 5 for learned distances."""
    p, halves = config.parameters, []
    cells = {(a, b): 0 for a in range(config.arms) for b in range(p.buckets)}
    for arm, x, _ in rows:
        cells[arm, interval.bucket_of(x, buckets=p.buckets)] += 1
    alone = frozenset(arm for (arm, _), count in cells.items() if count < k)
    for half in interval.halves:
        z = [half.start + (half.end - half.start) * i / p.grid for i in range(1, p.grid + 1)]
        curves = {
            arm: [literal_estimate(rows, arm, k, point) for point in z]
            for arm in range(config.arms)
            if arm not in alone
        }

        def distance(a: int, b: int, curves: dict[int, list[float]] = curves) -> float:
            gaps = [(f - g) ** 2 for f, g in zip(curves[a], curves[b], strict=True)]
            return math.sqrt(max(0.0, math.fsum(gaps) / p.grid - 2 * p.noise**2 / k))

        radius = p.cluster_ratio * p.lipschitz * half.width
        halves.append(literal_clusters(distance, config.arms, radius, alone))
    return halves


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    arms=st.integers(2, 8),
    k=st.integers(1, 4),
    buckets=st.integers(1, 3),
    noise=st.sampled_from([0.0, 0.05, 0.4]),
    ratio=st.floats(0.01, 2),
    interval=st.sampled_from([Interval(0, 0), Interval(1, 1), Interval(3, 5)]),
)
def test_learned_clusters_are_the_specification(
    seed: int, arms: int, k: int, buckets: int, noise: float, ratio: float, interval: Interval
) -> None:
    """Samples of zigzag arms, some contexts drawn twice, some arms with too few samples."""
    rng = np.random.default_rng(seed)
    environment = zigzag(arms, noise=noise)
    rows: Rows = []
    for arm in range(arms):
        for _ in range(int(rng.integers(0, 5 * k * buckets + 1))):
            x = interval.start + interval.width * float(rng.choice([rng.random(), 0.25, 0.5]))
            rows.append((arm, x, environment.reward(rng, x, arm)))
    rng.shuffle(rows)
    config = Config.resolve(
        arms=arms,
        horizon=1000,
        noise=noise,
        buckets=buckets,
        neighbours=k,
        grid=17,
        cluster_ratio=ratio,
    )
    left, right = sub_partition(
        config, interval, arms=np.arange(arms), k=k, samples=np.array(rows, dtype=SAMPLE)
    )
    assert [left.tolist(), right.tolist()] == literal_sub_partition(config, interval, rows, k)


def given_labels(similarity: dict[str, Any], arms: int, **parameters: Any) -> list[list[int]]:
    """The clusters that given distances lead to."""
    config = Config.resolve(arms=arms, horizon=1000, noise=0.1, similarity=similarity, **parameters)
    halves = sub_partition(
        config, Interval(0, 0), arms=np.arange(arms), k=0, samples=np.empty(0, dtype=SAMPLE)
    )
    return [labels.tolist() for labels in halves]


def test_features_are_euclidean() -> None:
    """A 3-4-5 triangle, joined at radius 5 and not below."""
    features = {"kind": "features", "features": [[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]}
    assert given_labels(features, 3, cluster_ratio=10.0) == [[0, 0, 0]] * 2
    assert given_labels(features, 3, cluster_ratio=9.99) == [[0, 1, 0]] * 2


def test_equal_distances_go_to_the_first_centre() -> None:
    """Within 1e-12, as on a grid of features."""
    features = {"kind": "features", "features": [[0.0], [2.0], [1.0 + 4e-13]]}
    assert given_labels(features, 3, cluster_ratio=2.0, lipschitz=1.0) == [[0, 1, 0]] * 2


def test_the_radius_has_a_tolerance() -> None:
    """A distance that exceeds it by rounding alone still joins."""
    features = {"kind": "features", "features": [[0.0], [0.1 * 3]]}
    assert given_labels(features, 2, cluster_ratio=0.6) == [[0, 0]] * 2


def test_curves_differ_by_half() -> None:
    """Two curves alike on the left and apart on the right: one cluster there, two here."""
    curves = {"kind": "curves", "curves": [[0.5, 0.5, 0.5], [0.5, 0.5, 1.0]]}
    assert given_labels(curves, 2) == [[0, 0], [0, 1]]


def test_curves_are_linear_between_their_points() -> None:
    """The same line given on two points and on a hundred and one is no distance away."""
    fine = np.linspace(0, 1, 101)
    curves = {"kind": "curves", "curves": [fine.tolist(), (1 - (1 - fine)).tolist()]}
    assert given_labels(curves, 2, cluster_ratio=0.0) == [[0, 0]] * 2


def test_constant_curves_need_one_point() -> None:
    """A row of one value is a flat line."""
    curves = {"kind": "curves", "curves": [[0.2], [0.2], [0.9]]}
    assert given_labels(curves, 3) == [[0, 0, 1]] * 2


@pytest.mark.parametrize("arms", [1, 4])
def test_unrelated_arms_are_clusters_by_themselves(arms: int) -> None:
    """With-No-Arm-Similarity."""
    assert given_labels({"kind": "none"}, arms) == [list(range(arms))] * 2
