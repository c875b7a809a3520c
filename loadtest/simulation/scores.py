"""The tables of `zooming simulate --compare`: regrets with their intervals, and the settings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtest.simulation.ablations import ABLATIONS
from loadtest.simulation.contests import OURS, PEERS, Contest, Course, Match, in_short

# Student's 97.5 % quantiles for 1, 2, … degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Scores:
    """What the judged matches say."""

    judged: Sequence[tuple[Match, Course]]
    contests: Sequence[Contest]

    @property
    def learners(self) -> list[str]:
        """Ours first, then the peers, the one that is told the metric and chance at the end."""
        return self._played(*OURS, *PEERS)

    def of(self, contest: Contest, learner: str) -> list[tuple[Match, Course]]:
        """The learner's matches in the contest."""
        return [
            (match, course)
            for match, course in self.judged
            if (match.contest.name, match.learner) == (contest.name, learner)
        ]

    def finals(self, contest: Contest, learner: str) -> NDArray[np.float64]:
        """The regret at the end, of each seed."""
        return np.array([course.regrets[-1] for _, course in self.of(contest, learner)])

    def regrets(self) -> str:
        """A row a learner, a column a contest; the least of those blind to the metric in bold."""
        best = {contest.name: self._best_blind(contest) for contest in self.contests}
        lines = [row("regret at the end", [contest.name for contest in self.contests])]
        lines.append("|---" * (len(self.contests) + 1) + "|")
        for learner in self.learners:
            cells = []
            for contest in self.contests:
                shown = cell(self.finals(contest, learner))
                cells.append(f"**{shown}**" if learner == best[contest.name] else shown)
            lines.append(row(_label(learner), cells))
        return "\n".join(lines)

    def ablations(self) -> str:
        """The same for ours with something taken away or told, on the seeds that these played."""
        ablations = self._played(*ABLATIONS)
        if not ablations:
            return ""
        judged = [contest for contest in self.contests if not contest.tuned_as]
        lines = [row("regret at the end", [contest.name for contest in judged])]
        lines.append("|---" * (len(judged) + 1) + "|")
        for learner in self._played("adaptive", *ablations):
            cells = []
            for contest in judged:
                seeds = len(self.finals(contest, ablations[0]))
                cells.append(cell(self.finals(contest, learner)[:seeds]))
            lines.append(row(learner, cells))
        return "\n".join(lines)

    def settings(self) -> str:
        """A row a contest, a column a tuned peer: what it was tuned to."""
        tuned = [name for name in self.learners if name in PEERS and len(PEERS[name].settings) > 1]
        if not tuned:
            return ""
        lines = [row("tuned to", tuned), "|---" * (len(tuned) + 1) + "|"]
        for contest in self.contests:
            matches = [self.of(contest, learner) for learner in tuned]
            cells = [in_short(found[0][0].settings) if found else "–" for found in matches]
            lines.append(row(contest.name, cells))
        return "\n".join(lines)

    def _played(self, *learners: str) -> list[str]:
        """Those of them that there is a match of."""
        played = {match.learner for match, _ in self.judged}
        return [name for name in learners if name in played]

    def _best_blind(self, contest: Contest) -> str | None:
        blind = [name for name in self.learners if name in OURS or not PEERS[name].told]
        means = {name: self.finals(contest, name) for name in blind}
        played = [name for name in blind if len(means[name])]
        return min(played, key=lambda name: means[name].mean(), default=None)


def interval(values: NDArray[np.float64]) -> float:
    """Half the width of the mean's 95 % interval, by Student's distribution; 0 for one value."""
    freedom = len(values) - 1
    if freedom < 1:
        return 0.0
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96 + 2.4 / freedom
    return quantile * float(values.std(ddof=1)) / float(np.sqrt(len(values)))


def cell(values: NDArray[np.float64]) -> str:
    """The mean over the seeds and its interval."""
    return f"{values.mean():,.0f} ± {interval(values):,.0f}" if len(values) else "–"


def _label(learner: str) -> str:
    if learner in OURS:
        return f"`{learner}`"
    return f"*told the metric:* {learner}" if PEERS[learner].told else learner


def row(head: str, cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {head} | " + " | ".join(cells) + " |"
