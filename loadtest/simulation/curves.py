"""The figure of `zooming simulate --compare`: the regret over time, a panel a contest."""

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from loadtest.simulation.contests import OURS, PEERS
from loadtest.simulation.drawing import save
from loadtest.simulation.scores import Scores

_COLUMNS = 4
# Okabe and Ito's colours, which colour-blind readers can tell apart; ours are drawn bold.
_COLOURS = ("#0072B2", "#56B4E9", "#999999", "#E69F00", "#CC79A7", "#009E73", "#D55E00",
            "#F0E442", "#000000", "#CCCCCC")  # fmt: skip
_STYLE: Any = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "zooming",  # the same data gives the same file
}


def draw(scores: Scores, *, folder: Path) -> list[Path]:
    """`compare.svg` and `compare.png`: the mean over the seeds, both axes logarithmic."""
    folder.mkdir(parents=True, exist_ok=True)
    colours = dict(zip((*OURS, *PEERS), _COLOURS, strict=True))
    rows = math.ceil(len(scores.contests) / _COLUMNS)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(3.6 * _COLUMNS, 2.8 * rows + 0.8))
        panels = figure.subplots(rows, _COLUMNS, squeeze=False).flatten()
        for axes, contest in zip(panels, scores.contests, strict=False):
            for learner in scores.learners:
                courses = [course for _, course in scores.of(contest, learner)]
                if courses:
                    regret = np.mean([course.regrets for course in courses], axis=0)
                    width = 2.2 if learner in OURS else 1.1
                    axes.plot(
                        courses[0].trials, regret, color=colours[learner], lw=width, label=learner
                    )
            axes.set(title=contest.name, xlabel="trials", xscale="log", yscale="log")
        for axes in panels[len(scores.contests) :]:
            axes.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
        figure.supylabel("cumulative regret")
        return save(figure, folder, "compare")
