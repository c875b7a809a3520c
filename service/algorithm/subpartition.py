"""Sub-partition of a flagged ball: k-NN curves on a grid, distances, greedy clusters.

Shared by the sequential learner and the engine's splitter, so that both make the same children.
Arms are *positions* in the ball's arm set here, and clusters are labels in the order of their
centres: `labels[p]` is the cluster of the arm at position `p`.
"""

import numpy as np
from numpy.typing import NDArray

from service.algorithm.config import Config
from service.algorithm.intervals import Interval
from service.algorithm.similarity import Curves, Features, Floats, Unrelated

# A sample as the store packs it: the arm's position in its ball, the context, the reward.
SAMPLE = np.dtype([("arm", "<u4"), ("x", "<f8"), ("reward", "<f8")])
TOLERANCE = 1e-12

Labels = NDArray[np.intp]


def sub_partition(
    config: Config,
    interval: Interval,
    *,
    arms: NDArray[np.intp],
    k: int,
    samples: NDArray[np.void],
) -> tuple[Labels, Labels]:
    """The clusters of a flagged ball's arms, for the left and for the right half.

    `samples` holds the flagged phase in order of arrival within each context; it is not looked at
    when the distances are given.
    """
    similarity, parameters = config.similarity, config.parameters
    if isinstance(similarity, Unrelated) or len(arms) == 1:
        everyone = np.arange(len(arms))
        return everyone, everyone
    sampled = None
    if not isinstance(similarity, Curves | Features):
        sampled = _SampledArms(samples, arms=len(arms), k=k)
        sampled.set_aside_short_cells(interval, buckets=parameters.buckets)

    labels = []
    for half in interval.halves:
        steps = np.arange(1, parameters.grid + 1) / parameters.grid
        z = half.start + half.width * steps
        radius = parameters.cluster_ratio * parameters.lipschitz * half.width
        if isinstance(similarity, Features):
            labels.append(greedy_clusters(similarity.values[arms], radius=radius))
        elif isinstance(similarity, Curves):
            profiles = similarity.profiles(arms, z)
            labels.append(greedy_clusters(profiles, radius=radius, points=parameters.grid))
        else:
            assert sampled is not None
            labels.append(
                greedy_clusters(
                    sampled.curves(z),
                    radius=radius,
                    points=parameters.grid,
                    bias=2 * parameters.noise**2 / k,
                    alone=sampled.alone,
                )
            )
    return labels[0], labels[1]


class _SampledArms:
    """The samples of a ball, by arm and in the order of (x, arrival)."""

    def __init__(self, samples: NDArray[np.void], *, arms: int, k: int) -> None:
        order = np.lexsort((samples["x"], samples["arm"]))
        self.k = k
        self.x: Floats = samples["x"][order]
        self.reward: Floats = samples["reward"][order]
        self.arm = samples["arm"][order]
        self.starts = np.searchsorted(self.arm, np.arange(arms + 1))
        self.alone = np.zeros(arms, dtype=bool)

    def set_aside_short_cells(self, interval: Interval, *, buckets: int) -> None:
        """An arm with a cell short of `k` was set aside: it will be a cluster by itself."""
        scaled = (self.x - interval.start) / interval.width * buckets
        bucket = np.minimum(scaled.astype(np.intp), buckets - 1)
        cells = np.bincount(
            self.arm * np.intp(buckets) + bucket, minlength=len(self.alone) * buckets
        )
        self.alone = np.any(cells.reshape(-1, buckets) < self.k, axis=1)

    def curves(self, z: Floats) -> Floats:
        """f̂: each arm's mean of its `k` samples nearest to each point of `z`."""
        curves = np.zeros((len(self.alone), len(z)))
        for arm in np.flatnonzero(~self.alone):
            mine = slice(self.starts[arm], self.starts[arm + 1])
            curves[arm] = nearest_means(self.x[mine], self.reward[mine], k=self.k, z=z)
        return curves


def nearest_means(x: Floats, reward: Floats, *, k: int, z: Floats) -> Floats:
    """The mean of the `k` samples nearest to each point of `z`; `x` is sorted.

    The window of `k` moves on by one wherever `z` passes the middle between the sample that it
    would leave and the one that it would gain.
    """
    middles = (x[:-k] + x[k:]) / 2
    start = np.searchsorted(middles, z)
    # Around their mean, so that the running sum stays small and its differences exact.
    mean = reward.mean()
    sums = np.concatenate(([0.0], np.cumsum(reward - mean)))
    return np.asarray(mean + (sums[start + k] - sums[start]) / k)


def greedy_clusters(
    profiles: Floats,
    *,
    radius: float,
    points: int = 1,
    bias: float = 0.0,
    alone: NDArray[np.bool_] | None = None,
) -> Labels:
    """Each arm in turn joins the nearest centre within `radius`, or becomes a centre.

    The squared distance is the sum of squared differences over `points`, less `bias`.
    """
    arms = len(profiles)
    labels = np.empty(arms, dtype=np.intp)
    centres = np.empty_like(profiles[: min(arms, 64)])
    label_of_centre: list[int] = []
    clusters = 0
    for arm, profile in enumerate(profiles):
        if alone is None or not alone[arm]:
            count = len(label_of_centre)
            if count:
                gaps = centres[:count] - profile
                squares = np.einsum("cg,cg->c", gaps, gaps) / points - bias
                distances = np.sqrt(np.maximum(0.0, squares))
                least = distances.min()
                if least <= radius + TOLERANCE:
                    first = int(np.argmax(distances <= least + TOLERANCE))
                    labels[arm] = label_of_centre[first]
                    continue
            if count == len(centres):
                centres = np.resize(centres, (2 * count, profiles.shape[1]))
            centres[count] = profile
            label_of_centre.append(clusters)
        labels[arm] = clusters
        clusters += 1
    return labels
