"""`zooming simulate --compare` in a small size: files, table, resumption, tuning, delays."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadtest.simulation import compare
from loadtest.simulation.ablations import ABLATIONS
from loadtest.simulation.compare import FIRST_JUDGED, TUNING_SEEDS, Courses
from loadtest.simulation.contests import OURS, PEERS, Contest, Course, Match, Play, contests, play
from loadtest.simulation.play import Trials
from loadtest.simulation.scores import interval
from service.__main__ import main

BEGIN, END = "<!-- zooming compare: begin -->", "<!-- zooming compare: end -->"
SEEDS, TRIALS = 2, 40
GP = "GP-UCB, independent arms"
SMALL = [
    Contest(name="small", arms=4, noise=0.1, horizon=TRIALS),
    Contest(name="small types", kind="types", arms=6, noise=0.1, horizon=TRIALS),
]
# Two settings each are enough to see that the better one is taken; the slow peer stays out.
FEW = {
    name: replace(kind, settings=kind.settings[:2]) for name, kind in PEERS.items() if not kind.slow
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command has run."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "docs").mkdir()
    (folder / "docs" / "RESULTS.md").write_text(f"# Results\n\n{BEGIN}\nbefore\n{END}\n\nrest\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "contests", lambda *_, **__: SMALL)
        patch.setattr(compare, "PEERS", FEW)
        assert call(folder) == 0
    return folder


def call(folder: Path) -> int:
    """The command, in a small size."""
    size = ["--compare", "--seeds", str(SEEDS), "--trials", str(TRIALS)]
    return main(["simulate", *size, "--out", str(folder / "out"), "--docs", str(folder / "docs")])


def rows(made: Path, name: str) -> list[dict[str, str]]:
    """A table of the results."""
    path = made / "out" / f"compare T={TRIALS}" / name
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_figure_and_tables_are_made(made: Path) -> None:
    drawn = made / "docs" / "simulation"
    assert {path.name for path in drawn.iterdir()} == {"compare.svg", "compare.png"}
    assert all(path.stat().st_size > 5000 for path in drawn.iterdir())
    page = (made / "docs" / "RESULTS.md").read_text()
    assert page.startswith(f"# Results\n\n{BEGIN}\n| regret at the end | small | small types |\n")
    assert page.endswith(f"(simulation/compare.png)\n{END}\n\nrest\n")
    assert "before" not in page


def test_every_learner_is_judged_in_every_contest_on_seeds_that_it_was_not_tuned_on(
    made: Path,
) -> None:
    judged = rows(made, "compare.csv")
    assert {row["learner"] for row in judged} == {*OURS, *ABLATIONS, *FEW}
    assert {row["contest"] for row in judged} == {contest.name for contest in SMALL}
    fresh = range(FIRST_JUDGED, FIRST_JUDGED + SEEDS)
    assert {int(row["seed"]) for row in judged} == set(fresh)
    assert {int(row["seed"]) for row in rows(made, "tuning.csv")} == set(TUNING_SEEDS)


def test_the_table_has_the_numbers_of_the_results(made: Path) -> None:
    """Means and intervals, and the least of the blind in bold."""
    page = (made / "docs" / "RESULTS.md").read_text()
    table = [line.split(" | ") for line in page.splitlines() if " ± " in line]
    rival, ablated = table[: len(OURS) + len(FEW)], table[len(OURS) + len(FEW) :]
    finals: dict[tuple[str, str], list[float]] = {}
    for row in rows(made, "compare.csv"):
        if int(row["trials"]) == TRIALS:
            finals.setdefault((row["learner"], row["contest"]), []).append(float(row["regret"]))
    told = {name for name, peer in PEERS.items() if peer.told}
    blind = [name for name in finals if name[0] not in {*told, *ABLATIONS}]
    for column, contest in enumerate(SMALL, 1):
        best = min((n for n in blind if n[1] == contest.name), key=lambda n: np.mean(finals[n]))
        for cells, learner in zip(rival, [*OURS, *FEW], strict=True):
            values = np.array(finals[learner, contest.name])
            shown = f"{values.mean():,.0f} ± {interval(values):,.0f}"
            wanted = f"**{shown}**" if (learner, contest.name) == best else shown
            assert cells[column].removesuffix(" |") == wanted
        for cells, learner in zip(ablated, ["adaptive", *ABLATIONS], strict=True):
            values = np.array(finals[learner, contest.name])
            shown = f"{values.mean():,.0f} ± {interval(values):,.0f}"
            assert cells[column].removesuffix(" |") == shown


def test_a_peer_is_judged_with_the_settings_that_did_best_in_tuning(made: Path) -> None:
    regrets: dict[str, float] = {}
    for row in rows(made, "tuning.csv"):
        if (row["learner"], row["contest"]) == (GP, "small") and int(row["trials"]) == TRIALS:
            regrets[row["settings"]] = regrets.get(row["settings"], 0.0) + float(row["regret"])
    assert len(regrets) == len(FEW[GP].settings)
    used = {
        row["settings"]
        for row in rows(made, "compare.csv")
        if (row["learner"], row["contest"]) == (GP, "small")
    }
    assert used == {min(regrets, key=regrets.__getitem__)}


def test_what_is_finished_is_not_played_again(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was cut short is: here the file of one match is damaged."""
    monkeypatch.setattr(compare, "PEERS", FEW)
    courses = Courses(made / "out" / f"compare T={TRIALS}")
    matches = compare.tuning_matches(SMALL)
    whole = courses.of(matches[3])
    assert whole is not None
    kept = courses.folder / f"{matches[3].name}.npz"
    kept.write_bytes(kept.read_bytes()[:100])
    saved: list[str] = []
    save = Courses.save

    def watched(self: Courses, match: Match, course: Course) -> None:
        saved.append(match.name)
        save(self, match, course)

    monkeypatch.setattr(Courses, "save", watched)
    again = dict(compare.play_all(matches, courses))
    assert saved == [matches[3].name]
    assert np.array_equal(again[matches[3]].regrets, whole.regrets)
    assert f"{len(matches) - 1} of {len(matches)} matches were finished" in capsys.readouterr().out


def test_a_page_without_a_place_for_the_tables_is_an_error_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "RESULTS.md").write_text("# Results\n")
    assert call(tmp_path) == 1
    assert "has no place for the tables" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_learners_of_a_seed_meet_the_same_arms_and_each_seed_has_its_own() -> None:
    types = SMALL[1]
    one, again, other = (types.environment(seed).curves(9) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(np.sort(one, axis=0), np.sort(other, axis=0))


def test_a_reward_comes_so_many_selects_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own decision, in order; those due after the last trial never come."""
    calls: list[str] = []

    class Watched:
        """Plays arm 0, and remembers what it is called for."""

        def select(self, x: float) -> Play:
            calls.append("select")
            return Play(x, 0)

        def reward(self, decision: Play, reward: float) -> None:
            calls.append("reward")
            assert reward == pytest.approx(float(environment.means(decision.x)[0]), abs=1e-6)

    late = Contest(name="late", arms=3, noise=0.0, horizon=6, delay=2)
    environment = late.environment(0)
    monkeypatch.setattr(Match, "player", lambda *_: Watched())
    course = play(Match(contest=late, learner=GP, seed=0))
    assert calls == ["select"] * 2 + ["select", "reward"] * 4
    contexts = Trials.draw(environment, horizon=6, seed=0).contexts
    lost = environment.optimum(contexts) - environment.means(contexts)[:, 0]
    assert course.regrets[-1] == pytest.approx(lost.sum())


def test_a_slow_peer_keeps_out_of_long_contests_and_of_many_arms() -> None:
    chosen = contests(100_000, with_long=True)
    slow = {name for name, kind in PEERS.items() if kind.slow}
    judged = compare.judged_matches(chosen, {}, seeds=10)
    entered = {match.contest.name for match in judged if match.learner in slow}
    kept_out = {contest.name for contest in chosen} - entered
    assert kept_out == {"K=1,000 σ=0.1", "K=50 σ=0.1, T=1,000,000"}
    assert {match.seed for match in judged if match.learner in slow} == {
        FIRST_JUDGED,
        FIRST_JUDGED + 1,
    }


def test_all_contests_of_the_full_size_are_there() -> None:
    full = contests(100_000, with_long=True)
    assert len({contest.name for contest in full}) == len(full) == 15
    assert sorted({contest.horizon for contest in full}) == [2_000, 100_000, 1_000_000]
    assert sorted({contest.delay for contest in full}) == [0, 100, 1_000]
    assert [contest.tuned_as for contest in full if contest.tuned_as] == ["K=50 σ=0.1, T=100,000"]


def test_the_interval_is_students() -> None:
    """Ten values: 2.262 standard errors; one value has none."""
    values = np.arange(10.0)
    assert interval(values) == pytest.approx(2.262 * values.std(ddof=1) / np.sqrt(10))
    assert interval(values[:1]) == 0.0


def test_one_learner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is tuned for it, and the table has its row only; an unknown one is refused."""
    monkeypatch.setattr(compare, "contests", lambda *_, **__: SMALL)
    size = ["--compare", "--seeds", "2", "--trials", str(TRIALS), "--out", str(tmp_path / "out")]
    assert main(["simulate", *size, "--only", "adaptive"]) == 0
    assert {row["learner"] for row in rows(tmp_path, "compare.csv")} == {"adaptive"}
    assert "| `adaptive` |" in capsys.readouterr().out
    two = ["--only", "adaptive", "--only", "a random arm"]
    assert main(["simulate", *size, *two]) == 0
    assert {row["learner"] for row in rows(tmp_path, "compare.csv")} == {two[1], two[3]}
    assert main(["simulate", *size, "--only", "oracle"]) == 1
    assert "no learner 'oracle'" in capsys.readouterr().err
