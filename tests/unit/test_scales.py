"""Context scales: at points computed by hand, and properties over generated samples."""

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from service.algorithm.scales import (
    EVENNESS,
    MOST_KNOTS,
    Auto,
    Linear,
    OutsideScale,
    Quantiles,
    Ranks,
    Scale,
    Unit,
    scale_from,
)
from service.api.scale_schemas import DEFAULT_CONTEXTS, ContextScale

NUMBERS = st.floats(-1e100, 1e100)
# Few different ones, so that there are ties.
SAMPLES = st.lists(NUMBERS | st.integers(-3, 3).map(float), min_size=1, max_size=60)


def large_sample(seed: int, *, size: int, decimals: int) -> list[float]:
    """Skewed; the fewer decimals, the more ties."""
    values = np.random.default_rng(seed).lognormal(size=size)
    return [float(value) for value in np.round(values, decimals)]


LARGE_SAMPLES = st.builds(
    large_sample,
    st.integers(0, 10**6),
    size=st.integers(MOST_KNOTS, 2000),
    decimals=st.integers(0, 6),
)


def by_definition(value: float, sample: list[float]) -> float:
    """The share below, and half of the share equal."""
    below, equal = sum(x < value for x in sample), sample.count(value)
    return (below + equal / 2) / len(sample)


# -- unit and linear


def test_unit_leaves_contexts_as_they_are() -> None:
    assert [Unit()(x) for x in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]


@pytest.mark.parametrize("value", [-5e-324, 1.0000000000000002, 7.0, math.nan])
def test_unit_refuses_what_is_outside(value: float) -> None:
    with pytest.raises(OutsideScale, match="between 0 and 1"):
        Unit()(value)


def test_linear_at_points_computed_by_hand() -> None:
    scale = Linear(low=-10.0, high=30.0)
    assert [scale(x) for x in (-10.0, 0.0, 10.0, 30.0)] == [0.0, 0.25, 0.5, 1.0]
    assert [scale(x) for x in (-11.0, -1e100, 31.0, 1e100)] == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("value", [-10.1, 30.1])
def test_linear_refuses_what_is_outside_if_so_told(value: float) -> None:
    scale = Linear(low=-10.0, high=30.0, outside="refuse")
    assert (scale(-10.0), scale(30.0)) == (0.0, 1.0)
    with pytest.raises(OutsideScale, match="between -10 and 30"):
        scale(value)


# -- quantiles


def test_quantiles_at_points_computed_by_hand() -> None:
    """1, 2, 2, 2, 10: the places are 0.1, 0.5 and 0.9."""
    scale = Quantiles.of([2.0, 10.0, 1.0, 2.0, 2.0])
    assert scale == Quantiles((1.0, 2.0, 10.0), (0.1, 0.5, 0.9))
    assert [scale(x) for x in (1.0, 2.0, 10.0)] == [0.1, 0.5, 0.9]
    assert [scale(x) for x in (1.5, 6.0)] == pytest.approx([0.3, 0.7])
    assert [scale(x) for x in (0.999, -1e100, 10.001, 1e100)] == [0.0, 0.0, 1.0, 1.0]


def test_a_sample_of_one_value_tells_lower_and_higher() -> None:
    """As `auto` may meet it."""
    scale = Quantiles.of([7.0, 7.0])
    assert [scale(x) for x in (6.9, 7.0, 7.1)] == [0.0, 0.5, 1.0]


@settings(deadline=None)  # the machine may be busy
@given(SAMPLES)
def test_values_of_the_sample_have_their_mid_ranks(sample: list[float]) -> None:
    scale = Quantiles.of(sample)
    for value in sample:
        assert scale(value) == pytest.approx(by_definition(value, sample))
    assert np.mean([scale(value) for value in sample]) == pytest.approx(0.5)


@settings(deadline=None)  # the machine may be busy
@given(SAMPLES | LARGE_SAMPLES, st.lists(NUMBERS, min_size=2, max_size=20))
def test_every_scale_is_monotone_and_stays_within_0_and_1(
    sample: list[float], others: list[float]
) -> None:
    """Also next to the knots, where rounding could do harm."""
    near = [math.nextafter(x, side) for x in sample[:20] for side in (-math.inf, math.inf)]
    probes = sorted([*sample, *others, *near])
    low, high = min(others), max(others)
    scales: list[Scale] = []
    for evenness in (1.0, EVENNESS):
        scales.append(Quantiles.of(sample, evenness=evenness))
        scales.append(Ranks(tuple(sorted(sample)), evenness))
    if low < high:
        scales.append(Linear(low=low, high=high))
    for scale in scales:
        places = [scale(x) for x in probes]
        assert places == sorted(places)
        assert places[0] >= 0.0
        assert places[-1] <= 1.0


@settings(deadline=None)  # the machine may be busy
@given(LARGE_SAMPLES)
def test_a_large_sample_is_thinned_and_hardly_changed(sample: list[float]) -> None:
    """By two steps of the grid of knots at the most, ties or not."""
    scale = Quantiles.of(sample)
    assert len(scale.values) <= MOST_KNOTS
    values, counts = np.unique(sample, return_counts=True)
    places = (np.cumsum(counts) - counts / 2) / len(sample)
    moved = np.abs([scale(value) for value in values.tolist()] - places)
    assert moved.max() <= 2 / (MOST_KNOTS - 1)


def test_contexts_of_the_samples_distribution_become_uniform() -> None:
    """Kolmogorov's distance between 1,000 contexts and 1,000 earlier ones: about 1.36·√(2/1000)."""
    rng = np.random.default_rng(1)
    for draw in (rng.lognormal, rng.exponential, rng.standard_cauchy):
        scale = Quantiles.of(draw(size=1000).tolist())
        places = np.sort([scale(x) for x in draw(size=1000).tolist()])
        assert np.abs(places - (np.arange(1000) + 0.5) / 1000).max() < 0.075


# -- auto


def test_an_uneven_scale_at_points_computed_by_hand() -> None:
    """0, 1, 1, 10: the quantiles are 0.125, 0.5 and 0.875, and 0, 0.1 and 1 on the line."""
    scale = Quantiles.of([0.0, 1.0, 1.0, 10.0], evenness=0.75)
    assert scale.places == pytest.approx((0.09375, 0.4, 0.90625))
    ranks = Ranks((0.0, 1.0, 1.0, 10.0), 0.75)
    places = [0.75 * 0.1, 0.75 * 0.5 + 0.25 * 0.1, 0.75 * 0.7 + 0.25 * 0.5, 0.75 * 0.9 + 0.25]
    assert [ranks(x) for x in (-1.0, 1.0, 5.0, 11.0)] == pytest.approx(places)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=60))
def test_auto_is_never_much_steeper_than_either_scale_that_it_is_made_of(
    sample: list[float],
) -> None:
    """Between neighbours it rises by 3/4 of the quantiles and 1/4 of the line, or more."""
    even, scale = Quantiles.of(sample), Quantiles.of(sample, evenness=0.75)
    values = even.values
    span = values[-1] - values[0]
    for left, right in pairwise(values):
        rise = scale(right) - scale(left)
        assert rise >= 0.75 * (even(right) - even(left)) - 1e-12
        assert rise >= 0.25 * (right - left) / span - 1e-12


def test_ranks_place_a_context_among_those_seen_and_itself() -> None:
    assert Ranks(())(123.0) == 0.5
    scale = Ranks((1.0, 2.0, 2.0))
    assert [scale(x) for x in (0.0, 1.0, 1.5, 2.0, 3.0)] == [0.125, 0.25, 0.375, 0.625, 0.875]


@settings(deadline=None)  # the machine may be busy
@given(SAMPLES, NUMBERS)
def test_ranks_are_the_mid_ranks_of_the_sample_with_the_context_in_it(
    sample: list[float], value: float
) -> None:
    expected = by_definition(value, [*sample, value])
    assert Ranks(tuple(sorted(sample)))(value) == pytest.approx(expected)


@settings(deadline=None)  # the machine may be busy
@given(SAMPLES, st.integers(1, 30))
def test_auto_has_ranks_first_and_is_then_frozen(sample: list[float], contexts: int) -> None:
    """Whatever comes after the first contexts changes nothing, if they differ; nor their order."""
    auto = Auto(contexts=contexts)
    first = sample[:contexts]
    if len(sample) < contexts or len(set(sample)) == 1:
        assert auto.scale(sample) == Ranks(tuple(sorted(sample)), EVENNESS)
    elif len(set(first)) == 1:
        differs = next(place for place, one in enumerate(sample) if one != first[0])
        assert auto.scale(sample) == Quantiles.of(sample[: differs + 1], evenness=EVENNESS)
    else:
        assert auto.scale(sample) == Quantiles.of(first, evenness=EVENNESS)
        assert auto.scale(first[::-1]) == auto.scale(sample)


@settings(deadline=None)  # the machine may be busy
@given(SAMPLES, st.integers(0, 60), st.integers(1, 30))
def test_contexts_in_turn_are_mapped_as_those_that_come_alone(
    sample: list[float], seen: int, contexts: int
) -> None:
    auto = Auto(contexts=contexts)
    before, after = sample[:seen], sample[seen:]
    alone = [auto.scale(before + after[:place]) for place in range(len(after))]
    assert list(auto.in_turn(before, after)) == alone


# -- settings


@settings(deadline=None)  # the machine may be busy
@given(SAMPLES | LARGE_SAMPLES)
def test_a_scale_comes_back_from_json_as_it_was(sample: list[float]) -> None:
    scales: list[Unit | Linear | Quantiles | Auto] = [
        Unit(),
        Linear(low=-1 / 3, high=0.1 + 0.2, outside="refuse"),
        Quantiles.of(sample),
        Quantiles.of(sample, evenness=EVENNESS),
        Auto(contexts=len(sample)),
    ]
    for scale in scales:
        assert scale_from(json.loads(json.dumps(scale.setting()))) == scale


def test_values_without_places_are_a_sample() -> None:
    setting = {"kind": "quantiles", "values": [1.0, 1.0, 3.0]}
    assert scale_from(setting) == Quantiles.of([1.0, 1.0, 3.0])


GOOD: list[tuple[str, dict[str, Any]]] = [
    ('{"kind": "unit"}', {"kind": "unit"}),
    (
        '{"kind": "linear", "low": -5, "high": 1e100}',
        {"kind": "linear", "low": -5.0, "high": 1e100, "outside": "clamp"},
    ),
    (
        '{"kind": "linear", "low": 0, "high": 5e-324, "outside": "refuse"}',
        {"kind": "linear", "low": 0.0, "high": 5e-324, "outside": "refuse"},
    ),
    ('{"kind": "quantiles", "values": [1, 0]}', {"kind": "quantiles", "values": [1.0, 0.0]}),
    ('{"kind": "auto"}', {"kind": "auto", "contexts": DEFAULT_CONTEXTS}),
    ('{"kind": "auto", "contexts": 10}', {"kind": "auto", "contexts": 10}),
    ('{"kind": "auto", "contexts": 10000}', {"kind": "auto", "contexts": 10000}),
]
BAD = {
    "no kind": ("{}", "Unable to extract tag"),
    "unknown kind": ('{"kind": "log"}', "does not match any of the expected tags"),
    "kind of another type": ('{"kind": 1}', "tag"),
    "text": ('"unit"', "should be an object"),
    "more": ('{"kind": "unit", "low": 0}', "Extra inputs"),
    "no high": ('{"kind": "linear", "low": 0}', "Field required"),
    "equal ends": ('{"kind": "linear", "low": 1, "high": 1}', "high: must be above low"),
    "falling": ('{"kind": "linear", "low": 1, "high": 0}', "high: must be above low"),
    "NaN": ('{"kind": "linear", "low": NaN, "high": 0}', "finite number"),
    "infinite": ('{"kind": "linear", "low": 0, "high": 1e400}', "finite number"),
    "huge": ('{"kind": "linear", "low": 0, "high": 1.1e100}', "less than or equal to 1"),
    "text for a number": ('{"kind": "linear", "low": "0", "high": 1}', "valid number"),
    "outside": ('{"kind": "linear", "low": 0, "high": 1, "outside": "wrap"}', "'clamp' or"),
    "no values": ('{"kind": "quantiles", "values": []}', "at least 2 items"),
    "one value": ('{"kind": "quantiles", "values": [1]}', "at least 2 items"),
    "equal values": ('{"kind": "quantiles", "values": [1, 1.0]}', "at least two must differ"),
    "a value that is NaN": ('{"kind": "quantiles", "values": [1, NaN]}', "finite number"),
    "too many": (f'{{"kind": "quantiles", "values": {list(range(10001))}}}', "at most 10000"),
    "places": ('{"kind": "quantiles", "values": [1, 2], "places": [0, 1]}', "Extra inputs"),
    "too few contexts": ('{"kind": "auto", "contexts": 9}', "greater than or equal to 10"),
    "too many contexts": ('{"kind": "auto", "contexts": 10001}', "less than or equal to 10000"),
    "no whole number": ('{"kind": "auto", "contexts": 20.0}', "valid integer"),
}
SETTING: TypeAdapter[Any] = TypeAdapter(ContextScale)


@pytest.mark.parametrize("text, resolved", GOOD)
def test_a_setting_is_taken_and_makes_a_scale(text: str, resolved: dict[str, Any]) -> None:
    setting = SETTING.validate_json(text).model_dump()
    assert setting == resolved
    scale = scale_from(setting)
    made = scale.scale([]) if isinstance(scale, Auto) else scale
    assert 0.0 <= made(0.0) <= 1.0


@pytest.mark.parametrize("text, said", BAD.values(), ids=BAD.keys())
def test_a_setting_that_makes_no_scale_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValidationError) as error:
        SETTING.validate_json(text)
    assert said in str(error.value)
