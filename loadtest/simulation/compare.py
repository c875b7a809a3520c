"""`zooming simulate --compare`: ours beside every peer, tuned on seeds of their own.

First every peer plays each contest with each of its settings; those with the least regret are then
judged on fresh seeds, beside ours, which has one configuration. What is finished is kept, a file a
match, so that what was stopped is resumed where it stood.
"""

import csv
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from loadtest.baselines import Kind
from loadtest.simulation import pool
from loadtest.simulation.ablations import ABLATIONS
from loadtest.simulation.contests import (
    OURS,
    PEERS,
    Contest,
    Course,
    Match,
    contests,
    in_short,
    play,
)
from loadtest.simulation.page import Place
from loadtest.simulation.scores import Scores
from service.errors import BadSetting

TUNING_SEEDS = (1000, 1001)  # none of these is judged
FIRST_JUDGED = 200  # and none of these was looked at while anything was built
ABLATION_SEEDS = 3
SLOW_SEEDS = 2  # a slow peer is tuned on one seed, and judged on these
MANY_ARMS = 500  # a slow peer keeps out of contests with more


@dataclass(frozen=True)
class Courses:
    """The courses of finished matches, in a folder."""

    folder: Path

    def save(self, match: pool.Named, course: Course) -> None:
        """Keeps it; a process that dies meanwhile leaves no half of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self._file(match).with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, trials=course.trials, regrets=course.regrets, seconds=course.seconds)
        part.replace(self._file(match))

    def of(self, match: pool.Named) -> Course | None:
        """The match's course, if it is finished."""
        try:
            with self._file(match).open("rb") as file, np.load(file) as kept:
                return Course(kept["trials"], kept["regrets"], float(kept["seconds"]))
        except (OSError, BadZipFile, ValueError, KeyError):
            return None

    def has(self, match: pool.Named) -> bool:
        """Whether the match is finished."""
        return self.of(match) is not None

    def _file(self, match: pool.Named) -> Path:
        return self.folder / f"{match.name}.npz"


def compare(
    *,
    seeds: int,
    trials: int,
    folder: Path,
    docs: Path | None,
    with_long: bool = False,
    only: Sequence[str] = (),
) -> None:
    """Plays what is missing in the folder; with `docs`, its figure and tables are renewed."""
    known = [*OURS, *ABLATIONS, *PEERS]
    for learner in only:
        if learner not in known:
            raise BadSetting(
                f"There is no learner '{learner}' to compare: take one of {'; '.join(known)}."
            )

    def wanted(matches: list[Match]) -> list[Match]:
        return [match for match in matches if not only or match.learner in only]

    if docs is not None:
        Place(docs, "compare").check()
    chosen = contests(trials, with_long=with_long)
    courses = Courses(folder / f"compare T={trials}")
    started = time.monotonic()
    print(f"finished matches are kept in {courses.folder}\ntuning the peers:")
    tuned = play_all(wanted(tuning_matches(chosen)), courses)
    write_rows(courses.folder / "tuning.csv", tuned)
    settings = best_settings(tuned)
    print("judging all learners:")
    judged = play_all(wanted(judged_matches(chosen, settings, seeds=seeds)), courses)
    table = write_rows(courses.folder / "compare.csv", judged)
    print(f"played in {time.monotonic() - started:.0f} s; one row a match and mark in {table}\n")
    scores = Scores(judged, chosen)
    tables = "\n\n".join(filter(None, (scores.regrets(), scores.ablations(), scores.settings())))
    print(tables)
    if docs is not None:
        _update_docs(docs, scores, tables)


def tuning_matches(chosen: Iterable[Contest]) -> list[Match]:
    """Each peer that has something to be tuned, in each contest with each of its settings."""
    return [
        Match(contest=contest, learner=peer.name, settings=settings, seed=seed)
        for contest in chosen
        if not contest.tuned_as
        for peer in PEERS.values()
        if len(peer.settings) > 1 and _enters(peer, contest)
        for settings in peer.settings
        for seed in (TUNING_SEEDS[:1] if peer.slow else TUNING_SEEDS)
    ]


def best_settings(tuned: Iterable[tuple[Match, Course]]) -> dict[tuple[str, str], Any]:
    """By contest and learner: the settings with the least regret; of equals the first."""
    regrets: dict[tuple[str, str], dict[Any, float]] = {}
    for match, course in tuned:
        found = regrets.setdefault((match.contest.name, match.learner), {})
        found[match.settings] = found.get(match.settings, 0.0) + float(course.regrets[-1])
    return {key: min(found, key=found.__getitem__) for key, found in regrets.items()}


def judged_matches(
    chosen: Iterable[Contest], settings: Mapping[tuple[str, str], Any], *, seeds: int
) -> list[Match]:
    """Ours, and each peer with the settings that it was tuned to, on fresh seeds."""
    matches = []
    judged = range(FIRST_JUDGED, FIRST_JUDGED + seeds)
    for contest in chosen:
        for name in OURS:
            matches += [Match(contest=contest, learner=name, seed=seed) for seed in judged]
        if not contest.tuned_as:
            matches += [
                Match(contest=contest, learner=name, seed=seed)
                for name in ABLATIONS
                for seed in judged[:ABLATION_SEEDS]
            ]
        for peer in PEERS.values():
            if _enters(peer, contest):
                tuned_to = settings.get((contest.tuned_as or contest.name, peer.name))
                matches += [
                    Match(contest=contest, learner=peer.name, settings=tuned_to, seed=seed)
                    for seed in (judged[:SLOW_SEEDS] if peer.slow else judged)
                ]
    return matches


def play_all(matches: Sequence[Match], courses: Courses) -> list[tuple[Match, Course]]:
    """Plays those that are not finished yet; all of them with their courses."""
    pool.play_all(
        matches,
        courses,
        play=play,
        called="matches",
        first=lambda match: (not _slow(match), -match.contest.horizon, -match.contest.arms),
    )
    found = ((match, courses.of(match)) for match in matches)
    return [(match, course) for match, course in found if course is not None]


def write_rows(path: Path, played: Iterable[tuple[Match, Course]]) -> Path:
    """One row a match and mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["contest", "learner", "settings", "seed", "seconds", "trials", "regret"])
        for match, course in played:
            about = [match.contest.name, match.learner, in_short(match.settings), match.seed]
            seconds = f"{course.seconds:.2f}"
            for trials, regret in zip(course.trials, course.regrets, strict=True):
                writer.writerow([*about, seconds, f"{trials:.0f}", f"{regret:.8g}"])
    return path


def _enters(peer: Kind, contest: Contest) -> bool:
    """A slow one keeps out of what would take it hours."""
    return not (peer.slow and (contest.arms > MANY_ARMS or contest.tuned_as))


def _slow(match: Match) -> bool:
    return match.learner in PEERS and PEERS[match.learner].slow


def _update_docs(docs: Path, scores: Scores, tables: str) -> None:
    """Draws the figure into `docs/simulation`, and puts the tables into `docs/RESULTS.md`."""
    try:
        from loadtest.simulation.curves import draw  # noqa: PLC0415 - matplotlib may be missing
    except ImportError as error:
        raise BadSetting(
            f"The figure needs matplotlib ({error}). Install it with: pip install matplotlib"
        ) from error
    place = Place(docs, "compare")
    draw(scores, folder=place.pictures)
    place.fill(f"{tables}\n\n![Regret over time, a panel a contest](simulation/compare.png)")
    print(f"\nthe figure is in {place.pictures}, the tables are in {place.page}")
