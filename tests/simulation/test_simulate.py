"""`zooming simulate` in a small size: figures, tables, resumption, and the engine beside it."""

import csv
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from loadtest.environments import zigzag
from loadtest.simulation import engine
from loadtest.simulation import experiments as ex
from loadtest.simulation.experiments import Run, Setting, Size
from loadtest.simulation.play import Outcome
from loadtest.simulation.results import Results
from loadtest.simulation.simulate import play_all
from service.__main__ import main
from service.algorithm import Learner
from tests.support.servers import wait_for

BEGIN, END = "<!-- zooming simulate: begin -->", "<!-- zooming simulate: end -->"
SEEDS, TRIALS = 1, 150
FIGURES = {
    "average-reward", "regret", "partition", "arms-50", "arms-100", "arms-200", "noise", "arms",
    "scaling",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command has run."""
    folder = tmp_path_factory.mktemp("simulate")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "RESULTS.md").write_text(f"# Results\n\n{BEGIN}\nthe table before\n{END}\n\nthe rest\n")
    assert call(folder) == 0
    return folder


def call(folder: Path) -> int:
    """The command, in a small size."""
    size = ["--seeds", str(SEEDS), "--trials", str(TRIALS)]
    return main(["simulate", *size, "--out", str(folder / "out"), "--docs", str(folder / "docs")])


def test_all_figures_are_drawn(made: Path) -> None:
    """As SVG that can be read and PNG that holds something."""
    drawn = made / "docs" / "simulation"
    assert {path.stem for path in drawn.iterdir()} == FIGURES
    for path in drawn.glob("*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314 - our own file
    for path in drawn.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000


def test_the_tables_take_their_place_in_the_page(made: Path) -> None:
    page = (made / "docs" / "RESULTS.md").read_text()
    assert page.startswith(f"# Results\n\n{BEGIN}\n| average reward")
    assert page.endswith(f"|\n{END}\n\nthe rest\n")
    assert "the table before" not in page
    assert page.count("| yes |") + page.count("| **no** |") == 7


def test_the_table_of_results_has_a_row_for_each_run_and_mark(made: Path) -> None:
    runs = ex.all_runs(Size(seeds=SEEDS, horizon=TRIALS))
    results = Results(made / "out" / f"T={TRIALS}")
    with (results.folder / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(results.marks(run)["trials"]) for run in runs)
    assert {row["experiment"] for row in rows} == {run.experiment for run in runs}
    last = rows[-1]
    assert int(float(last["trials"])) == int(last["horizon"])


def test_what_is_finished_is_not_played_again(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was cut short is: here the file of one run is damaged."""
    results = Results(made / "out" / f"T={TRIALS}")
    runs = ex.all_runs(Size(seeds=SEEDS, horizon=TRIALS))
    kept = results.folder / f"{runs[3].name}.npz"
    whole = results.marks(runs[3])
    kept.write_bytes(kept.read_bytes()[:100])
    saved: list[Run] = []
    save = Results.save

    def watched(kept: Results, run: Run, outcome: Outcome) -> None:
        saved.append(run)
        save(kept, run, outcome)

    monkeypatch.setattr(Results, "save", watched)
    play_all(runs, results)
    assert [run.name for run in saved] == [runs[3].name]
    assert all((results.marks(runs[3])[name] == whole[name]).all() for name in whole)
    assert f"{len(runs) - 1} of {len(runs)} runs were finished before" in capsys.readouterr().out


def test_a_page_without_a_place_for_the_tables_is_an_error(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = made / "docs" / "RESULTS.md"
    before = page.read_text()
    page.write_text("# Results\n")
    try:
        assert call(made) == 1
        assert "has no place for the tables" in capsys.readouterr().err
        assert page.read_text() == "# Results\n"
    finally:
        page.write_text(before)


def test_ctrl_c_stops_it_in_order_and_keeps_what_is_finished(tmp_path: Path) -> None:
    """The signal goes to all its processes, as a terminal sends it."""
    command = [sys.executable, "-m", "service", "simulate", "--trials", "3000", "--seeds", "1"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(lambda: len(list(tmp_path.glob("*/*.npz"))) > 2, what="some finished runs")
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "what is finished is kept" in said
    assert "Traceback" not in said
    runs = ex.all_runs(Size(seeds=1, horizon=3000))
    kept = [run for run in runs if Results(tmp_path / "T=3000").has(run)]
    assert 2 < len(kept) < len(runs)


ENGINE_RUNS = [
    Run(
        experiment="test",
        setting=Setting(name="test", environment=zigzag(10, noise=0.01), horizon=700),
        system=system,
        seed=seed,
    )
    for system in ex.PAPER_SYSTEMS
    for seed in range(2)
]


def test_the_engine_plays_the_same_in_lock_step(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten tenants, each trial of all of them in two round trips, to the last trial."""
    engine.replay(ENGINE_RUNS)
    assert "700 of 700 trials of 10 runs" in capsys.readouterr().out


def test_a_difference_between_engine_and_learner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the learner forgets one reward."""
    reward = Learner.reward
    calls = []

    def forgetful(learner: Learner, decision: object, value: float) -> None:
        calls.append(value)
        if len(calls) != 100:
            reward(learner, decision, value)  # type: ignore[arg-type] # passed on as it came

    monkeypatch.setattr(Learner, "reward", forgetful)
    with pytest.raises(engine.EngineDiffers, match="the learner arm"):
        engine.replay(ENGINE_RUNS)
