"""What the paper says of its simulation, each claim with the numbers that speak for or against it.

A difference counts when it is more than two standard errors from nothing; seeds are paired, since
all systems of a seed meet the same trials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtest.simulation import experiments as ex
from loadtest.simulation.experiments import Run, Setting, Size, System
from loadtest.simulation.play import CONTEXT_BINS, QUARTERS
from loadtest.simulation.results import Results

Values = NDArray[np.float64]
# A play counts as right when its arm earns at most this much less than the best.
NEAR_BEST = 0.1
GRID = 2001


@dataclass(frozen=True)
class Claim:
    """A claim, whether it comes out, and by which numbers."""

    text: str
    holds: bool
    numbers: str

    def row(self) -> str:
        """A row of the table."""
        return f"| {self.text} | {'yes' if self.holds else '**no**'} | {self.numbers} |"


@dataclass(frozen=True)
class Court:
    """Hears the results of a size."""

    results: Results
    size: Size

    def tables(self) -> str:
        """Regrets and rewards of the paper's settings, then the claims, in Markdown."""
        return "\n".join([*self._regrets(), "", *self._claims(), "", *self._others()])

    def regrets(self, setting: Setting, system: System, *, experiment: str = "paper") -> Values:
        """At the end, of each seed."""
        runs = self._runs(setting, system, experiment)
        return np.array([self.results.marks(run)["regret"][-1] for run in runs])

    def rewards(self, setting: Setting, system: System, *, quarter: int) -> Values:
        """The average within a quarter of the run, of each seed."""
        found = []
        for run in self._runs(setting, system, "paper"):
            marks = self.results.marks(run)
            ends = np.array([quarter - 1, quarter]) * setting.horizon / QUARTERS
            trials = np.concatenate([[0.0], marks["trials"]])
            earned = np.concatenate([[0.0], marks["trials"] * marks["average_reward"]])
            first, last = np.interp(ends, trials, earned)
            found.append((last - first) / (ends[1] - ends[0]))
        return np.array(found)

    def near_best(self, setting: Setting, system: System) -> Values:
        """The share of plays that are next to the best, in each quarter."""
        counts = self.results.frequencies(self._runs(setting, system, "paper"))
        centres = (np.arange(CONTEXT_BINS) + 0.5) / CONTEXT_BINS
        means = setting.environment.means(centres)
        right = means >= means.max(axis=1, keepdims=True) - NEAR_BEST
        shares: Values = (counts * right).sum(axis=(1, 2)) / counts.sum(axis=(1, 2))
        return shares

    def _runs(self, setting: Setting, system: System, experiment: str) -> list[Run]:
        runs = getattr(ex, experiment)(self.size)
        return [
            run
            for run in runs
            if run.setting.name == setting.name and run.system.name == system.name
        ]

    def _regrets(self) -> Iterator[str]:
        settings = ex.paper_settings(self.size)
        yield "| average reward · regret | " + " | ".join(s.name for s in settings) + " |"
        yield "|---" * (len(settings) + 1) + "|"
        for system in ex.PAPER_SYSTEMS:
            cells = [self._cell(setting, system, "paper") for setting in settings]
            yield f"| `{system.name}` | " + " | ".join(cells) + " |"
        cells = [self._cell(setting, ex.LITERAL, "literal") for setting in settings]
        yield f"| `{ex.LITERAL.name}` | " + " | ".join(cells) + " |"
        best = [f"{_optimum(setting):.3f} · 0" for setting in settings]
        yield "| *the optimum* | " + " | ".join(best) + " |"
        chance = [f"{_at_random(setting):.3f} · {_lost(setting):,.0f}" for setting in settings]
        yield "| *a random arm* | " + " | ".join(chance) + " |"

    def _cell(self, setting: Setting, system: System, experiment: str) -> str:
        runs = self._runs(setting, system, experiment)
        reward = np.mean([self.results.marks(run)["average_reward"][-1] for run in runs])
        regrets = self.regrets(setting, system, experiment=experiment)
        return f"{reward:.3f} · {regrets.mean():,.0f} ± {_two_errors(regrets):,.0f}"

    def _claims(self) -> Iterator[str]:
        yield "| the paper's claim | comes out | by |"
        yield "|---|---|---|"
        for claim in (
            self._curves_best(),
            self._none_slowest(),
            self._pays_up_front(),
            self._theta_suffers(),
            self._zigzag_clear(),
            self._gain_grows(),
            self._literal_learns(),
        ):
            yield claim.row()

    def _curves_best(self) -> Claim:
        found = self._comparisons(ex.CURVES, [ex.LEARNED, ex.THETA, ex.NONE])
        phi = [self._difference(s, ex.PHI, ex.CURVES) for s in ex.paper_settings(self.size)]
        return Claim(
            "`curves`, told the true distances, is best",
            all(mean > error for _, (mean, error) in found),
            f"{_told(found)}. (With φ, which the paper does not run, `features` is as good: "
            + ", ".join(_signed(*one) for one in phi)
            + ")",
        )

    def _none_slowest(self) -> Claim:
        found = self._comparisons(ex.NONE, [ex.LEARNED, ex.CURVES, ex.THETA, ex.PHI])
        return Claim(
            "`none`, which shares nothing between arms, is slowest",
            all(mean < -error for _, (mean, error) in found),
            _told(found),
        )

    def _comparisons(
        self, system: System, rivals: Sequence[System]
    ) -> list[tuple[str, tuple[float, float]]]:
        """How much more regret each rival has than the system, in each of the paper's settings."""
        return [
            (f"{rival.name}, {setting.name}", self._difference(setting, rival, system))
            for setting in ex.paper_settings(self.size)
            for rival in rivals
        ]

    def _pays_up_front(self) -> Claim:
        settings = ex.paper_settings(self.size)
        first = [self.rewards(s, ex.LEARNED, quarter=1).mean() for s in settings]
        last = [self.rewards(s, ex.LEARNED, quarter=4).mean() for s in settings]
        others = [self.rewards(s, ex.CURVES, quarter=1).mean() for s in settings]
        return Claim(
            "`learned` pays up front, then improves",
            all(a < c and a < b for a, b, c in zip(first, last, others, strict=True)),
            "average reward in the first and the last quarter: "
            + ", ".join(f"{a:.3f} → {b:.3f}" for a, b in zip(first, last, strict=True))
            + "; `curves` in the first: "
            + ", ".join(f"{c:.3f}" for c in others),
        )

    def _theta_suffers(self) -> Claim:
        found = [
            self._difference(setting, ex.THETA, ex.PHI) for setting in ex.paper_settings(self.size)
        ]
        return Claim(
            "`features` suffers from the periodic metric: θ is worse than φ",
            all(mean > error for mean, error in found),
            "regret with θ less that with φ: " + ", ".join(_signed(*one) for one in found),
        )

    def _zigzag_clear(self) -> Claim:
        shares = [self.near_best(s, ex.LEARNED) for s in ex.paper_settings(self.size)]
        text = "; ".join(" → ".join(f"{share:.0%}" for share in one) for one in shares)
        return Claim(
            "the zigzag sharpens, and is clear at the end",
            all(one[-1] > 0.9 and one[-1] > one[0] for one in shares),
            f"plays within {NEAR_BEST:g} of the best, quarter by quarter: {text}",
        )

    def _gain_grows(self) -> Claim:
        gains = []
        for arms in ex.ARM_COUNTS:
            runs = [r for r in ex.arm_counts(self.size) if r.setting.environment.arms == arms]
            none, learned = (
                np.mean([self.results.marks(r)["regret"][-1] for r in runs if r.system is system])
                for system in (ex.NONE, ex.LEARNED)
            )
            gains.append((arms, float(none - learned)))
        text = ", ".join(f"K={arms}: {gain:+,.0f}" for arms, gain in gains)
        values = [gain for _, gain in gains]
        return Claim(
            "the gain from similarity grows with the number of arms",
            bool(np.all(np.diff(values) > 0)),
            f"regret of `none` less that of `learned`, σ = 0.01: {text}",
        )

    def _literal_learns(self) -> Claim:
        settings = ex.paper_settings(self.size)
        shares = [
            float(self.regrets(s, ex.LITERAL, experiment="literal").mean()) / _lost(s)
            for s in settings
        ]
        needed = ", ".join(f"{64 * 26 * s.environment.arms:,}" for s in settings)
        return Claim(
            "64 buckets with k = 26 learn within T",
            all(share < 0.9 for share in shares),
            f"the first split alone needs {needed} samples of T = {self.size.horizon:,}; regret "
            "beside that of a random arm: " + ", ".join(f"{share:.2f}" for share in shares),
        )

    def _others(self) -> Iterator[str]:
        runs = list(ex.environments(self.size))
        systems = list(dict.fromkeys(run.system.name for run in runs))
        yield "| regret | " + " | ".join(f"`{system}`" for system in systems) + " |"
        yield "|---" * (len(systems) + 1) + "|"
        for setting in dict.fromkeys(run.setting.name for run in runs):
            cells = []
            for system in systems:
                chosen = [
                    self.results.marks(run)["regret"][-1]
                    for run in runs
                    if (run.setting.name, run.system.name) == (setting, system)
                ]
                cells.append(f"{np.mean(chosen):,.0f}" if chosen else "")
            yield f"| {setting} | " + " | ".join(cells) + " |"

    def _difference(self, setting: Setting, one: System, other: System) -> tuple[float, float]:
        """How much more regret the one has, and two standard errors of that."""
        differences = self.regrets(setting, one) - self.regrets(setting, other)
        return float(differences.mean()), _two_errors(differences)


def _two_errors(values: Values | Sequence[float]) -> float:
    values = np.asarray(values)
    return 2 * float(values.std(ddof=1)) / float(np.sqrt(len(values))) if len(values) > 1 else 0.0


def _told(comparisons: Sequence[tuple[str, tuple[float, float]]]) -> str:
    closest, difference = min(comparisons, key=lambda one: abs(one[1][0]))
    clear = sum(abs(mean) > error for _, (mean, error) in comparisons)
    return (
        f"in {clear} of {len(comparisons)} comparisons by more than two standard errors; the "
        f"closest is `{closest}`, whose regret is {_signed(*difference)}"
    )


def _signed(mean: float, error: float) -> str:
    return f"{mean:+,.0f} ± {error:,.0f}"


def _grid(setting: Setting) -> Values:
    return setting.environment.means(np.linspace(0, 1, GRID))


def _optimum(setting: Setting) -> float:
    return float(_grid(setting).max(axis=1).mean())


def _at_random(setting: Setting) -> float:
    return float(_grid(setting).mean())


def _lost(setting: Setting) -> float:
    return (_optimum(setting) - _at_random(setting)) * setting.horizon
