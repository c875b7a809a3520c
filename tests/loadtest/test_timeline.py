"""The course of a test keeps its sums however long it takes, and percentiles survive merging."""

import numpy as np
import pytest

from loadtest.latency import Latencies
from loadtest.tally import DUE, FLUSH_SECONDS, SELECT, Learning, Tally
from loadtest.timeline import MOST_SLICES, Timeline


def tally(slot: int, *, trials: int = 2, earned: float = 1.0) -> Tally:
    """What a process saw in a slot."""
    learning = Learning(trials=trials, earned=earned, optimum=2.0, at_random=0.5)
    latencies = {(SELECT, DUE): [1000 * (slot + 1)] * trials}
    return Tally(0, slot=slot, learning=learning, latencies_us=latencies)


def timeline(slots: int) -> Timeline:
    """A test of so many slots, each like the other."""
    made = Timeline()
    for slot in range(slots):
        made.add(tally(slot), in_flight=slot)
    return made


@pytest.mark.parametrize("slots", [1, MOST_SLICES, MOST_SLICES + 1, 5 * MOST_SLICES + 3])
def test_nothing_is_lost_when_slices_are_merged(slots: int) -> None:
    """And there are never more than can be drawn."""
    made = timeline(slots)
    assert len(made.slices) <= MOST_SLICES
    assert sum(piece.learning.trials for piece in made.slices) == 2 * slots
    assert sum(piece.latencies.count for piece in made.slices) == 2 * slots
    assert max(piece.in_flight for piece in made.slices) == slots - 1
    assert made.running()[-1] == Learning(2 * slots, 1.0 * slots, 2.0 * slots, 0.5 * slots)
    assert made.ends_seconds()[-1] >= slots * FLUSH_SECONDS
    assert made.ends_seconds()[-1] < slots * FLUSH_SECONDS + made.slice_seconds


def test_a_slot_without_answers_leaves_a_gap() -> None:
    """A stall is seen as such."""
    made = Timeline()
    made.add(tally(0), in_flight=0)
    made.add(tally(3), in_flight=0)
    assert [piece.learning.trials for piece in made.slices] == [2, 0, 0, 2]


def test_a_part_of_the_trials_is_cut_out_within_slices() -> None:
    """The last quarter of eight trials is two of them, wherever the slices end."""
    made = Timeline()
    made.add(tally(0, trials=5, earned=0.0), in_flight=0)
    made.add(tally(1, trials=3, earned=2.4), in_flight=0)
    last = made.between(6, 8)
    assert last.trials == 2
    assert last.earned == pytest.approx(1.6)
    assert made.between(0, 8).earned == pytest.approx(2.4)


def test_learning_tells_how_far_it_came() -> None:
    """From a random arm, 0, to the optimum, 1."""
    learning = Learning(trials=10, earned=7.0, optimum=9.0, at_random=5.0)
    assert (learning.share, learning.regret) == (0.5, 2.0)
    assert Learning(trials=1, earned=1.0, optimum=1.0, at_random=1.0).share == 0.0


def test_percentiles_are_exact_to_three_digits() -> None:
    """Also of two distributions that were added, and of none."""
    rng = np.random.default_rng(0)
    latencies_us = rng.lognormal(8.0, 1.0, 20_000).astype(int)
    whole, half = Latencies(), Latencies()
    whole.record(latencies_us[:9000].tolist())
    half.record(latencies_us[9000:].tolist())
    whole.add(half)
    percentiles = [50.0, 90.0, 99.0, 99.9]
    exact = np.percentile(latencies_us, percentiles, method="inverted_cdf") / 1000
    assert whole.percentiles_ms(percentiles) == pytest.approx(exact, rel=2e-3)
    assert whole.max_ms == pytest.approx(latencies_us.max() / 1000, rel=1e-3)
    assert whole.count == 20_000
    assert Latencies().percentiles_ms([50.0]) == [0.0]
