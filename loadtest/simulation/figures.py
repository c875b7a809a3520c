"""The figures of docs/RESULTS.md, as SVG and PNG, from the results alone.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; each system keeps its own.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from loadtest.simulation import experiments as ex
from loadtest.simulation.drawing import save
from loadtest.simulation.experiments import Run, Setting, Size
from loadtest.simulation.results import Results

COLOURS = {
    "learned": "#0072B2",
    "curves": "#009E73",
    "features θ": "#D55E00",
    "features φ": "#CC79A7",
    "features type": "#CC79A7",
    "none": "#555555",
    "learned, 64 buckets": "#56B4E9",
    "paper": "#0072B2",
}
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "zooming",  # the same data gives the same file
    "svg.fonttype": "path",
}


class Gallery:
    """Draws from the results of a size into a folder."""

    def __init__(self, results: Results, size: Size, *, folder: Path) -> None:
        self._results = results
        self._size = size
        self._folder = folder

    def draw(self) -> list[Path]:
        """All figures; the files made."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(_STYLE):
            return [
                *self._over_time("average-reward", "average_reward", "average reward so far"),
                *self._over_time("regret", "regret", "cumulative regret"),
                *self._partition(),
                *self._all_frequencies(),
                *self._sweep("noise", ex.noises(self._size), _noise_of, "σ", log=True),
                *self._sweep(
                    "arms", ex.arm_counts(self._size), _arms_of, "number of arms K", log=True
                ),
                *self._scaling(),
            ]

    def _marks(self, runs: Sequence[Run], column: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """The trials of the marks, and the column for each run and mark."""
        marks = [self._results.marks(run) for run in runs]
        return marks[0]["trials"], np.array([mark[column] for mark in marks])

    def _over_time(self, name: str, column: str, label: str) -> list[Path]:
        """A panel a setting of the paper, a line a system with the band over the seeds."""
        settings = ex.paper_settings(self._size)
        figure = Figure(figsize=(4.2 * len(settings), 3.6))
        panels = figure.subplots(1, len(settings), sharey=True)
        runs = [*ex.paper(self._size), *ex.literal(self._size)]
        for axes, setting in zip(panels, settings, strict=True):
            for system, of_system in _by_system(_of(setting, runs)).items():
                trials, values = self._marks(of_system, column)
                _band(axes, trials, values, system)
            axes.set(title=setting.name, xlabel="trials")
            axes.xaxis.set_major_formatter(_thousands)
        if column == "average_reward":
            for axes, setting in zip(panels, settings, strict=True):
                grid = setting.environment.means(np.linspace(0, 1, 2001))
                best, chance = grid.max(axis=1).mean(), grid.mean()
                axes.axhline(best, color="black", lw=0.8, ls=":", label="the optimum")
                axes.axhline(chance, color="black", lw=0.8, ls="--", label="a random arm")
                axes.set_ylim(0.6, 1.01)
        panels[0].set_ylabel(label)
        panels[-1].legend(loc="best", fontsize=8)
        return save(figure, self._folder, name)

    def _partition(self) -> list[Path]:
        """How the partition grows: a row a quantity, a column a setting."""
        settings = ex.paper_settings(self._size)
        columns = {
            "balls": "balls",
            "depth": "depth",
            "flagged_share": "share of flagged trials so far",
        }
        figure = Figure(figsize=(4.2 * len(settings), 2.6 * len(columns)))
        grid = figure.subplots(len(columns), len(settings), sharex=True, sharey="row")
        for row, (column, label) in zip(grid, columns.items(), strict=True):
            for axes, setting in zip(row, settings, strict=True):
                for system, runs in _by_system(_of(setting, ex.paper(self._size))).items():
                    trials, values = self._marks(runs, column)
                    _band(axes, trials, values, system)
            row[0].set_ylabel(label)
        for axes, setting in zip(grid[0], settings, strict=True):
            axes.set_title(setting.name)
        for axes in grid[-1]:
            axes.set_xlabel("trials")
            axes.xaxis.set_major_formatter(_thousands)
        grid[0][0].legend(loc="best", fontsize=8)
        return save(figure, self._folder, "partition")

    def _all_frequencies(self) -> list[Path]:
        made = []
        for setting in ex.paper_settings(self._size):
            arms = setting.environment.arms
            made += self._frequencies(setting, name=f"arms-{arms}")
        return made

    def _frequencies(self, setting: Setting, *, name: str) -> list[Path]:
        """Arm over context, a row a system, a column a quarter of the run."""
        systems = _by_system(_of(setting, ex.paper(self._size)))
        figure = Figure(figsize=(10, 2.1 * len(systems)))
        grid = figure.subplots(len(systems), 4, sharex=True, sharey=True)
        for row, (system, runs) in zip(grid, systems.items(), strict=True):
            quarters = self._results.frequencies(runs)
            for axes, counts in zip(row, quarters, strict=True):
                shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
                axes.imshow(
                    np.sqrt(shares.T),  # so that what is rare still shows
                    origin="lower",
                    aspect="auto",
                    extent=(0, 1, -0.5, setting.environment.arms - 0.5),
                    cmap="viridis",
                    vmin=0,
                    vmax=1,
                    interpolation="nearest",
                )
                axes.grid(visible=False)
            row[0].set_ylabel(f"{system}\narm")
        for number, axes in enumerate(grid[0], 1):
            axes.set_title(f"quarter {number}")
        for axes in grid[-1]:
            axes.set_xlabel("context")
        figure.suptitle(f"Which arm is played where: {setting.name}")
        return save(figure, self._folder, name)

    def _sweep(
        self,
        name: str,
        runs: Iterable[Run],
        place_of: Callable[[Run], float],
        label: str,
        *,
        log: bool,
    ) -> list[Path]:
        """The regret at the end of the runs, against something that varies."""
        figure = Figure(figsize=(5.4, 3.8))
        axes = figure.subplots()
        for system, of_system in _by_system(runs).items():
            places = sorted({place_of(run) for run in of_system})
            regrets = [
                self._final([run for run in of_system if place_of(run) == place])
                for place in places
            ]
            _band(axes, np.array(places), np.array(regrets).T, system, marker="o")
        axes.set(xlabel=label, ylabel="regret at the end", ylim=(0, None))
        if log:
            axes.set_xscale("log")
        axes.legend(fontsize=8)
        return save(figure, self._folder, name)

    def _final(self, runs: Sequence[Run]) -> NDArray[Any]:
        return self._marks(runs, "regret")[1][:, -1]

    def _scaling(self) -> list[Path]:
        """The preset `paper` beside the shape of its bound, against T and against K."""
        runs = list(ex.scaling(self._size))
        horizon = max(2, round(self._size.horizon))
        figure = Figure(figsize=(9, 3.8))
        left, right = figure.subplots(1, 2)
        for axes, chosen, place_of, label in (
            (left, [r for r in runs if _arms_of(r) == 8], _horizon_of, "trials T (K = 8)"),
            (right, [r for r in runs if r.setting.horizon == horizon], _arms_of,
             f"arms K (T = {horizon})"),
        ):  # fmt: skip
            places = sorted({place_of(run) for run in chosen})
            groups = [[run for run in chosen if place_of(run) == place] for place in places]
            regrets = np.array([self._final(group) for group in groups]).T
            _band(axes, np.array(places), regrets, "paper", marker="o")
            bounds = [bound(group[0]) for group in groups]
            axes.plot(
                places, bounds, color="black", ls="--", lw=1, label="σ²L⁻²K ln(TK) + √(σ²KT ln(TK))"
            )
            axes.set(xscale="log", yscale="log", xlabel=label, ylabel="regret")
            axes.set_xticks(places, [_thousands(place, None) for place in places])
            axes.minorticks_off()
            axes.legend(fontsize=8)
        return save(figure, self._folder, "scaling")


def bound(run: Run) -> float:
    """The shape of the paper's regret bound in the continuum, without its constants."""
    environment, horizon = run.setting.environment, run.setting.horizon
    variance, arms = environment.noise**2, environment.arms
    logarithm = np.log(horizon * arms)
    first = variance / environment.lipschitz**2 * arms * logarithm
    return float(first + np.sqrt(variance * arms * horizon * logarithm))


def _band(
    axes: Axes, places: NDArray[Any], values: NDArray[Any], system: str, *, marker: str = ""
) -> None:
    """The mean over the seeds, and from the least to the greatest."""
    colour = COLOURS[system]
    axes.plot(places, values.mean(axis=0), color=colour, label=system, lw=1.4, marker=marker, ms=4)
    axes.fill_between(
        places, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, lw=0
    )


def _of(setting: Setting, runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.setting.name == setting.name]


def _by_system(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.system.name, []).append(run)
    return found


def _noise_of(run: Run) -> float:
    return run.setting.environment.noise


def _arms_of(run: Run) -> float:
    return run.setting.environment.arms


def _horizon_of(run: Run) -> float:
    return run.setting.horizon


def _thousands(trials: float, _: object) -> str:
    return f"{trials / 1000:g}k" if trials >= 1000 else f"{trials:g}"
