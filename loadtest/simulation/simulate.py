"""`zooming simulate`: all runs played, figures drawn, claims held against the numbers."""

import time
from collections.abc import Sequence
from pathlib import Path

from loadtest.simulation import engine, pool
from loadtest.simulation import experiments as ex
from loadtest.simulation.claims import Court
from loadtest.simulation.experiments import Run, Size
from loadtest.simulation.page import Place
from loadtest.simulation.play import play
from loadtest.simulation.results import Results
from service.errors import BadSetting


def simulate(
    *, seeds: int, trials: int, folder: Path, docs: Path | None, with_engine: bool
) -> None:
    """Plays what is missing in the folder; with `docs`, its figures and tables are renewed."""
    size = Size(seeds=seeds, horizon=trials)
    runs = ex.all_runs(size)
    results = Results(folder / f"T={trials}")
    started = time.monotonic()
    print(f"{len(runs)} runs of {trials} trials, most of them; finished ones are kept in {folder}")
    play_all(runs, results)
    table = results.write_table(runs)
    print(f"played in {time.monotonic() - started:.0f} s; one row a run and mark in {table}\n")
    tables = Court(results, size).tables()
    print(tables)
    if docs is not None:
        _update_docs(docs, results, size, tables)
    if with_engine:
        _check_engine(size)


def play_all(runs: Sequence[Run], results: Results) -> None:
    """Plays those of the runs that are not finished yet."""
    pool.play_all(runs, results, play=play, called="runs", first=lambda run: -run.setting.horizon)


def _update_docs(docs: Path, results: Results, size: Size, tables: str) -> None:
    """Draws the figures into `docs/simulation`, and puts the tables into `docs/RESULTS.md`."""
    try:
        from loadtest.simulation.figures import Gallery  # noqa: PLC0415 - matplotlib may be missing
    except ImportError as error:
        raise BadSetting(
            f"The figures need matplotlib ({error}). Install it with: pip install matplotlib"
        ) from error
    place = Place(docs, "simulate")
    place.check()
    made = Gallery(results, size, folder=place.pictures).draw()
    place.fill(tables)
    print(f"\n{len(made)} figures in {place.pictures}; the tables are in {place.page}")


def _check_engine(size: Size) -> None:
    """Each setting and system of the paper once, through steps and store."""
    runs = list(ex.paper(Size(seeds=1, horizon=size.horizon)))
    print(f"\nthrough the engine: {len(runs)} runs, in lock step")
    started = time.monotonic()
    engine.replay(runs)
    print(
        f"{len(runs)} runs of {size.horizon} trials in {time.monotonic() - started:.0f} s: "
        "in every trial the engine played the learner's arm, in the same ball"
    )
