"""What is simulated: settings (environments and horizons), systems (what they are told), seeds.

A setting's trials, contexts and chance, come from the seed alone: all systems of a setting meet the
same, and differ by themselves only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadtest.environments import (
    Environment,
    bernoulli,
    continuum,
    finite_types,
    permuted,
    scrambled,
    zigzag,
)
from service.algorithm import AnyConfig, resolve

HORIZON = 100_000
CURVE_POINTS = 201


@dataclass(frozen=True, kw_only=True)
class System:
    """What a learner is told of the arms, and parameters that are not the preset's."""

    name: str
    kind: str = "learned"
    feature: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def similarity(self, environment: Environment) -> dict[str, Any]:
        """As a tenant's configuration says it."""
        if self.kind == "curves":
            return {"kind": "curves", "curves": environment.curves(CURVE_POINTS).tolist()}
        if self.kind == "features":
            column = environment.features[self.feature][:, np.newaxis]
            return {"kind": "features", "features": column.tolist()}
        return {"kind": self.kind}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An environment, played for so many trials."""

    name: str
    environment: Environment
    horizon: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """One system in one setting with one seed."""

    experiment: str
    setting: Setting
    system: System
    seed: int

    @property
    def name(self) -> str:
        """What tells the run from every other, fit for the name of a file."""
        where = f"{self.experiment} {self.setting.name} T={self.setting.horizon}"
        return f"{where} {self.system.name} {self.seed}".replace(" ", "_")

    def body(self) -> dict[str, Any]:
        """A tenant's configuration that plays this run."""
        environment = self.setting.environment
        return {
            "arms": environment.arms,
            "preset": "simulation",
            "horizon": self.setting.horizon,
            "noise": environment.noise,
            "lipschitz": environment.lipschitz,
            "similarity": self.system.similarity(environment),
            **self.system.parameters,
        }

    def config(self) -> AnyConfig:
        """The learner's configuration."""
        return resolve(**self.body())


LEARNED = System(name="learned")
CURVES = System(name="curves", kind="curves")
THETA = System(name="features θ", kind="features", feature="theta")
PHI = System(name="features φ", kind="features", feature="phi")
TYPE = System(name="features type", kind="features", feature="type")
NONE = System(name="none", kind="none")
LITERAL = System(name="learned, 64 buckets", parameters={"buckets": 64})
PAPER = System(name="paper", parameters={"preset": "paper"})

PAPER_SYSTEMS = (LEARNED, CURVES, THETA, PHI, NONE)
PAPER_SETTINGS = ((50, 1e-5), (100, 1e-5), (200, 1e-2))
NOISES = (1e-5, 1e-3, 1e-2, 0.1, 0.3, 0.5)
ARM_COUNTS = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
# σ = 0.01 makes the paper's k small enough to get somewhere within these horizons.
SCALING_NOISE = 0.01
SCALING_HORIZONS = (3_000, 10_000, 30_000, 100_000, 300_000)
SCALING_ARMS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of it: the whole takes minutes, a small one seconds."""

    seeds: int
    horizon: int = HORIZON

    def few(self) -> range:
        """Seeds of the experiments beyond the paper's."""
        return range(max(1, self.seeds // 3))


def all_runs(size: Size) -> list[Run]:
    """Every run there is, the paper's first."""
    return [
        *paper(size),
        *literal(size),
        *environments(size),
        *noises(size),
        *arm_counts(size),
        *scaling(size),
    ]


def paper_settings(size: Size) -> list[Setting]:
    """The three of the paper."""
    return [
        _setting(f"K={arms} σ={noise:g}", zigzag(arms, noise=noise), size)
        for arms, noise in PAPER_SETTINGS
    ]


def paper(size: Size) -> Iterator[Run]:
    """The paper's experiments."""
    for setting in paper_settings(size):
        yield from _runs("paper", setting, PAPER_SYSTEMS, range(size.seeds))


def literal(size: Size) -> Iterator[Run]:
    """64 buckets with k = 26, as the paper's text has it."""
    for setting in paper_settings(size):
        yield from _runs("literal", setting, (LITERAL,), size.few())


def environments(size: Size) -> Iterator[Run]:
    """Other reward functions, other chances, other orders and names of the arms."""
    quiet = zigzag(50, noise=1e-2)
    types = finite_types(200, types=5, noise=0.1, lipschitz=1.0, seed=11)
    for name, environment, systems in (
        ("types", types, (LEARNED, CURVES, TYPE, NONE)),
        ("continuum", continuum(200, noise=0.1, lipschitz=1.0), (LEARNED, CURVES, THETA, NONE)),
        ("half slope", continuum(200, noise=0.1, lipschitz=0.5), (LEARNED, CURVES, THETA, NONE)),
        ("Bernoulli", bernoulli(zigzag(50, noise=0.0)), (LEARNED, CURVES, THETA, NONE)),
        ("zigzag", quiet, (LEARNED, THETA)),
        ("permuted", permuted(quiet, seed=5), (LEARNED, THETA)),
        ("scrambled", scrambled(quiet), (LEARNED, THETA)),
    ):
        yield from _runs("environments", _setting(name, environment, size), systems, size.few())


def noises(size: Size) -> Iterator[Run]:
    """From next to none to more than the rewards differ."""
    for noise in NOISES:
        setting = _setting(f"σ={noise:g}", zigzag(50, noise=noise), size)
        yield from _runs("noise", setting, (LEARNED, CURVES, NONE), size.few())


def arm_counts(size: Size) -> Iterator[Run]:
    """From two arms to two thousand."""
    for arms in ARM_COUNTS:
        setting = _setting(f"K={arms}", zigzag(arms, noise=1e-2), size)
        yield from _runs("arms", setting, (LEARNED, CURVES, NONE), size.few())


def scaling(size: Size) -> Iterator[Run]:
    """The preset `paper` in the continuum, against the horizon and against the arms."""
    factor = size.horizon / HORIZON
    cases = [(8, horizon) for horizon in SCALING_HORIZONS]
    cases += [(arms, HORIZON) for arms in SCALING_ARMS if arms != 8]
    for arms, horizon in cases:
        environment = continuum(arms, noise=SCALING_NOISE, lipschitz=1.0)
        setting = Setting(
            name=f"K={arms}", environment=environment, horizon=max(2, round(horizon * factor))
        )
        yield from _runs("scaling", setting, (PAPER,), size.few())


def _setting(name: str, environment: Environment, size: Size) -> Setting:
    return Setting(name=name, environment=environment, horizon=size.horizon)


def _runs(
    experiment: str, setting: Setting, systems: Sequence[System], seeds: range
) -> Iterator[Run]:
    for system in systems:
        for seed in seeds:
            yield Run(experiment=experiment, setting=setting, system=system, seed=seed)
