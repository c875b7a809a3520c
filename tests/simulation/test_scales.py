"""`zooming simulate --scales` in a small size: the cases by hand, the table, resumption."""

import math
from pathlib import Path

import numpy as np
import pytest

from loadtest.simulation.compare import FIRST_JUDGED, Courses
from loadtest.simulation.play import Trials
from loadtest.simulation.scales import all_matches
from loadtest.simulation.scores import interval
from loadtest.simulation.skewed import CASES, LEARNERS, SCALES, SKEWS, TRUE, Case, Match, play
from service.__main__ import main
from service.algorithm.scales import EVENNESS, Quantiles, Ranks

BEGIN, END = "<!-- zooming scales: begin -->", "<!-- zooming scales: end -->"
SEEDS, TRIALS = 2, 200
HORIZON = TRIALS // 5
U = np.random.default_rng(0).random(2000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command has run."""
    folder = tmp_path_factory.mktemp("scales")
    (folder / "docs").mkdir()
    (folder / "docs" / "RESULTS.md").write_text(f"# Results\n\n{BEGIN}\nbefore\n{END}\n\nrest\n")
    assert call(folder) == 0
    return folder


def call(folder: Path) -> int:
    """The command, in a small size."""
    size = ["--scales", "--seeds", str(SEEDS), "--trials", str(TRIALS)]
    return main(["simulate", *size, "--out", str(folder / "out"), "--docs", str(folder / "docs")])


def match(
    scale: str, *, skew: str = "lognormal", by: str = "quantile", horizon: int = 300
) -> Match:
    """One of `adaptive`."""
    case = Case(skew=skew, by=by)
    return Match(case=case, scale=scale, learner=LEARNERS[0], horizon=horizon, seed=5)


def test_the_table_has_the_numbers_of_all_seeds(made: Path) -> None:
    page = (made / "docs" / "RESULTS.md").read_text()
    assert page.startswith(f"# Results\n\n{BEGIN}\n| regret at the end | lognormal, by quantile |")
    assert page.endswith(f"|\n{END}\n\nrest\n")
    assert "before" not in page
    rows = [line.split(" | ") for line in page.splitlines() if " ± " in line]
    assert len(rows) == len(LEARNERS) * len(SCALES)
    courses = Courses(made / "out" / f"scales T={HORIZON}")
    finals: dict[tuple[str, str], list[float]] = {}
    for one in all_matches(HORIZON, seeds=SEEDS):
        course = courses.of(one)
        assert course is not None
        key = f"| `{one.learner}`: {one.scale}", one.case.name
        finals.setdefault(key, []).append(float(course.regrets[-1]))
    for head, *cells in rows:
        for case, cell in zip(CASES, cells, strict=True):
            values = np.array(finals[head, case.name])
            assert len(values) == SEEDS
            shown = f"{values.mean():,.0f} ± {interval(values):,.0f}"
            assert cell.removesuffix(" |") == shown


def test_what_is_finished_is_not_played_again(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("something was played")

    monkeypatch.setattr(Courses, "save", refuse)
    assert call(made) == 0
    total = len(all_matches(HORIZON, seeds=SEEDS))
    assert f"{total} of {total} matches were finished before" in capsys.readouterr().out


def test_a_page_without_a_place_for_the_table_is_an_error_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "RESULTS.md").write_text("# Results\n")
    assert call(tmp_path) == 1
    assert "has no place for the tables" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_matches_are_different_and_their_seeds_fresh() -> None:
    matches = all_matches(HORIZON, seeds=3)
    assert len({one.name for one in matches}) == len(matches) == 2 * 7 * 8 * 3
    assert {one.seed for one in matches} == {FIRST_JUDGED, FIRST_JUDGED + 1, FIRST_JUDGED + 2}


@pytest.mark.parametrize(
    "skew, medians",
    [
        # The quantiles 0.25, 0.5 and 0.75.
        ("lognormal", [math.exp(-0.67449), 1.0, math.exp(0.67449)]),
        ("exponential", [math.log(4 / 3), math.log(2), math.log(4)]),
        ("beta-like", [(1 - 0.75**0.2) ** 2, (1 - 0.5**0.2) ** 2, (1 - 0.25**0.2) ** 2]),
        ("two clusters", [0.0, 100 - 7.034, 100.0]),
    ],
)
def test_raw_contexts_have_the_quantiles_of_their_distribution(
    skew: str, medians: list[float]
) -> None:
    """Between the clusters there is a gap: 7 standard deviations is as far as one reaches."""
    case = Case(skew=skew, by="value")
    assert case.raw(np.array([0.25, 0.5, 0.75])) == pytest.approx(medians, rel=1e-4, abs=1e-4)
    assert (np.diff(case.raw(np.sort(U))) >= 0).all()
    assert np.isfinite(case.raw(np.array([0.0, 1.0]))).all()


def test_curves_are_met_at_the_quantile_or_at_the_value() -> None:
    ends = np.array([0.001, 0.999])
    for skew in SKEWS:
        assert np.array_equal(Case(skew=skew, by="quantile").places(U), U)
        by_value = Case(skew=skew, by="value")
        places = by_value.places(U)
        assert places.min() >= 0.0
        assert places.max() <= 1.0
        assert by_value.places(ends) == pytest.approx([0.0, 1.0])
        # In proportion to the raw values.
        inside = np.abs(U - 0.5) < 0.499
        assert np.corrcoef(places[inside], by_value.raw(U)[inside])[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_quantiles_make_contexts_even_and_lines_do_not(case: Case) -> None:
    """Kolmogorov's distance from even contexts: 200 earlier ones bring it to about 1.36/√200."""

    def uneven(scale: str) -> float:
        one = Match(case=case, scale=scale, learner=LEARNERS[0], horizon=1, seed=3)
        places = np.sort(one.contexts(U))
        return float(np.abs(places - (np.arange(len(U)) + 0.5) / len(U)).max())

    assert uneven(TRUE) < 0.04
    assert uneven("`quantiles`") < 0.12
    assert uneven("200 contexts, quantiles alone") < 0.12
    assert uneven("`linear`") > 0.3
    assert uneven("`quantiles`") < uneven("`auto`, 200 contexts") < uneven("`linear`")


def test_auto_knows_what_came_before_and_is_then_frozen() -> None:
    one = match("`auto`, 50 contexts")
    raw = one.case.raw(U).tolist()
    seen = one.contexts(U)
    assert seen[0] == 0.5
    assert seen[30] == Ranks(tuple(sorted(raw[:30])), EVENNESS)(raw[30])
    frozen = Quantiles.of(raw[:50], evenness=EVENNESS)
    assert seen[50:] == [frozen(x) for x in raw[50:]]


def test_with_the_true_distribution_nothing_is_left_of_the_skew() -> None:
    """The regret is that of even contexts, whatever the raw ones were."""
    courses = [play(match(TRUE, skew=skew)) for skew in SKEWS]
    assert len({tuple(course.regrets) for course in courses}) == 1


def test_the_regret_is_counted_where_the_curves_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """A player of arm 0 loses what it lacks there, whatever scale stands before it."""
    one = match("`linear`", by="value")
    environment = one.environment()

    class Stubborn:
        """Plays arm 0."""

        arm = 0

        def select(self, x: float) -> "Stubborn":
            assert 0.0 <= x <= 1.0
            return self

        def reward(self, decision: "Stubborn", reward: float) -> None:
            """Learns nothing."""

    monkeypatch.setattr("loadtest.simulation.skewed.learner_for", lambda _: Stubborn())
    u = Trials.draw(environment, horizon=one.horizon, seed=one.seed).contexts
    means = environment.means(one.case.places(u))
    lost = (means.max(axis=1) - means[:, 0]).sum()
    assert play(one).regrets[-1] == pytest.approx(lost)
