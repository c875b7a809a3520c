"""`zooming simulate --scales`: what a context scale is worth where contexts are skewed.

What is finished is kept, a file a match, so that what was stopped is resumed where it stood.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loadtest.simulation import pool
from loadtest.simulation.compare import FIRST_JUDGED, Courses
from loadtest.simulation.contests import FULL
from loadtest.simulation.page import Place
from loadtest.simulation.scores import cell, row
from loadtest.simulation.skewed import CASES, LEARNERS, SCALES, Match, play

TRIALS = 20_000  # of a match in full size


def scales(*, seeds: int, trials: int, folder: Path, docs: Path | None) -> None:
    """Plays what is missing in the folder; with `docs`, the table is renewed.

    The horizon keeps its proportion to `trials`.
    """
    place = None if docs is None else Place(docs, "scales")
    if place is not None:
        place.check()
    horizon = max(1, round(TRIALS * trials / FULL))
    courses = Courses(folder / f"scales T={horizon}")
    started = time.monotonic()
    print(f"finished matches are kept in {courses.folder}")
    matches = all_matches(horizon, seeds=seeds)
    pool.play_all(matches, courses, play=play, called="matches", first=lambda match: match.learner)
    print(f"played in {time.monotonic() - started:.0f} s\n")
    shown = table(matches, courses)
    print(shown)
    if place is not None:
        place.fill(shown)
        print(f"\nthe table is in {place.page}")


def all_matches(horizon: int, *, seeds: int) -> list[Match]:
    """Each learner behind each scale, in each case; all meet the same arms, contexts and chance."""
    return [
        Match(case=case, scale=scale, learner=learner, horizon=horizon, seed=seed)
        for learner in LEARNERS
        for scale in SCALES
        for case in CASES
        for seed in range(FIRST_JUDGED, FIRST_JUDGED + seeds)
    ]


def table(matches: Sequence[Match], courses: Courses) -> str:
    """A row a learner and scale, a column a case: the regret at the end."""
    finals: dict[tuple[str, str, str], list[float]] = {}
    for match in matches:
        course = courses.of(match)
        assert course is not None, "all were played"
        key = (match.learner, match.scale, match.case.name)
        finals.setdefault(key, []).append(float(course.regrets[-1]))
    lines = [row("regret at the end", [case.name for case in CASES])]
    lines.append("|---" * (len(CASES) + 1) + "|")
    for learner in LEARNERS:
        for scale in SCALES:
            regrets = (np.array(finals[learner, scale, case.name]) for case in CASES)
            lines.append(row(f"`{learner}`: {scale}", [cell(values) for values in regrets]))
    return "\n".join(lines)
