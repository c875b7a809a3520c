"""`zooming bench`: how the time and memory of a sub-partition grow with the number of arms.

A flagged ball with 64 buckets and k = 4 holds 256 samples an arm. Two settings: the zigzag
environment, whose clusters stay few, and arms that are all different, so that every arm is compared
with every other (no noise, radius 0). Time is the best of three runs; memory is the peak that numpy
and Python allocate.
"""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from loadtest.environments import zigzag
from service.algorithm import SAMPLE, Config, Interval, sub_partition

BUCKETS, K, NOISE = 64, 4, 0.01
ARMS = (100, 250, 500, 1000, 2500, 5000)
RUNS = 3


def bench() -> None:
    """Prints one row for each setting and number of arms, as it is measured."""
    print(f"Sub-partition of a ball with {BUCKETS} buckets and k = {K}\n")
    titles = f"{'samples':>10}{'clusters':>10}{'seconds':>10}{'peak MB':>9}"
    print(f"{'arms are':<14}{'arms':>6}{titles}")
    for name, cluster_ratio, noise in (("zigzag", 3 / 16, NOISE), ("all different", 0.0, 0.0)):
        for arms in ARMS:
            config = Config.resolve(
                arms=arms,
                horizon=100_000,
                noise=noise,
                buckets=BUCKETS,
                neighbours=K,
                cluster_ratio=cluster_ratio,
            )
            samples = _samples(arms)

            def run(
                config: Config = config, samples: NDArray[np.void] = samples, arms: int = arms
            ) -> int:
                left, right = sub_partition(
                    config, Interval(0, 0), arms=np.arange(arms), k=K, samples=samples
                )
                return int(left.max() + right.max()) + 2

            clusters = run()
            seconds = min(_seconds(run) for _ in range(RUNS))
            row = f"{name:<14}{arms:>6}{len(samples):>10}{clusters:>10}{seconds:>10.3f}"
            print(f"{row}{_peak_megabytes(run):>9.0f}", flush=True)


def _samples(arms: int) -> NDArray[np.void]:
    """A full flagged phase: K samples in every cell."""
    rng = np.random.default_rng(arms)
    environment = zigzag(arms, noise=NOISE)
    samples = np.empty(arms * BUCKETS * K, dtype=SAMPLE)
    cells = np.arange(len(samples)) // K
    samples["arm"], bucket = cells // BUCKETS, cells % BUCKETS
    samples["x"] = (bucket + rng.random(len(samples))) / BUCKETS
    peaks = environment.features["phi"][samples["arm"]]
    samples["reward"] = 1 - np.abs(samples["x"] - peaks) + rng.normal(0, NOISE, len(samples))
    return samples


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _peak_megabytes(run: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
