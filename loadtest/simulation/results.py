"""The results of finished runs, a file each, so that what was stopped is resumed where it stood.

`results.csv` is made from them: one row a run and mark.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from loadtest.simulation.experiments import Run
from loadtest.simulation.play import Mark, Outcome

_COLUMNS = [field.name for field in fields(Mark)]
_ABOUT = ["experiment", "setting", "arms", "noise", "horizon", "system", "seed"]


@dataclass(frozen=True)
class Results:
    """The outcomes in a folder."""

    folder: Path

    def save(self, run: Run, outcome: Outcome) -> None:
        """Keeps the outcome; a process that dies meanwhile leaves no half of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        marks = np.array([tuple(asdict(mark).values()) for mark in outcome.marks])
        part = self._file(run).with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(file, marks=marks, frequencies=outcome.frequencies)
        part.replace(self._file(run))

    def has(self, run: Run) -> bool:
        """Whether the run is finished."""
        try:
            # The library leaves a file open that it cannot read.
            with self._file(run).open("rb") as file, np.load(file) as kept:
                return set(kept.files) == {"marks", "frequencies"}
        except (OSError, BadZipFile, ValueError):
            return False

    def marks(self, run: Run) -> dict[str, NDArray[np.float64]]:
        """The run's marks, by column."""
        with np.load(self._file(run)) as kept:
            return dict(zip(_COLUMNS, kept["marks"].T, strict=True))

    def frequencies(self, runs: Iterable[Run]) -> NDArray[np.float64]:
        """How often each arm was played where, in each quarter, over several runs."""
        total: NDArray[np.float64] | None = None
        for run in runs:
            with np.load(self._file(run)) as kept:
                counts = kept["frequencies"].astype(np.float64)
            total = counts if total is None else total + counts
        assert total is not None, "no run to add up"
        return total

    def write_table(self, runs: Iterable[Run]) -> Path:
        """One row a run and mark."""
        path = self.folder / "results.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*_ABOUT, *_COLUMNS])
            for run in runs:
                writer.writerows(self._rows(run))
        return path

    def _rows(self, run: Run) -> Iterator[list[object]]:
        environment = run.setting.environment
        about = [run.experiment, run.setting.name, environment.arms, environment.noise]
        about += [run.setting.horizon, run.system.name, run.seed]
        marks = self.marks(run)
        for place in range(len(marks["trials"])):
            yield [*about, *(f"{marks[column][place]:.8g}" for column in _COLUMNS)]

    def _file(self, run: Run) -> Path:
        return self.folder / f"{run.name}.npz"
