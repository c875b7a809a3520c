"""The synthetic environments: known reward curves, so that regret can be computed exactly.

Arm `a` of `K` has a mean reward `f_a(x)` for each context `x` in [0, 1], `lipschitz`-Lipschitz,
with values in [0, 1]. Nothing here learns or knows the service. An environment never changes and
can be pickled; all chance comes from a seed or from the generator that is handed in.
"""

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PIECES = 8  # straight pieces in a random curve of `finite_types`
TYPES = 4  # of the environment `types`


class Curves(Protocol):
    """The mean rewards of all arms as functions of the context."""

    def __call__(self, x: Floats) -> Floats:
        """The means at contexts of any shape: that shape, with one last axis for the arms."""

    def take(self, arms: Integers) -> Self:
        """The curves of these arms, in this order."""


@dataclass(frozen=True, eq=False)
class Tents:
    """f_a(x) = 1 − slope·|x − peak_a|."""

    peaks: Floats
    slope: float

    def __call__(self, x: Floats) -> Floats:
        return 1.0 - self.slope * np.abs(x[..., np.newaxis] - self.peaks)

    def take(self, arms: Integers) -> Self:
        return replace(self, peaks=self.peaks[arms])


@dataclass(frozen=True, eq=False)
class Polylines:
    """Linear between values on an even grid over [0, 1]; `values[i, a]` is arm `a` at knot `i`."""

    values: Floats

    def __call__(self, x: Floats) -> Floats:
        pieces = len(self.values) - 1
        piece = np.minimum(np.floor(x * pieces), pieces - 1).astype(np.int64)
        weight = (x * pieces - piece)[..., np.newaxis]
        return (1.0 - weight) * self.values[piece] + weight * self.values[piece + 1]

    def take(self, arms: Integers) -> Self:
        return replace(self, values=self.values[:, arms])


@dataclass(frozen=True, eq=False, kw_only=True)
class Environment:
    """Reward curves, the noise on top, and what may be told to a learner about the arms."""

    arms: int
    noise: float  # standard deviation of a reward around its mean, or a bound on it
    lipschitz: float
    mean_curves: Curves
    features: Mapping[str, Floats]  # by name, one number an arm
    bernoulli: bool = False  # rewards are 0 or 1; else the mean plus Gaussian noise

    def means(self, x: ArrayLike) -> Floats:
        """The mean reward of each arm: (K,) at one context, (n, K) at n contexts."""
        return self.mean_curves(np.asarray(x, dtype=np.float64))

    def optimum(self, x: ArrayLike) -> Floats:
        """f*(x), the best arm's mean, in the shape of `x`."""
        return np.asarray(self.means(x).max(axis=-1))

    def reward(self, rng: np.random.Generator, x: float, arm: int) -> float:
        """One random reward for playing `arm` at `x`; it takes one draw from `rng`."""
        chance = rng.random() if self.bernoulli else rng.standard_normal()
        return self.reward_by_chance(float(self.means(x)[arm]), float(chance))

    def reward_by_chance(self, mean: float, chance: float) -> float:
        """The reward with this mean that a draw makes: uniform for Bernoulli, else normal."""
        return float(chance < mean) if self.bernoulli else mean + self.noise * chance

    def curves(self, grid: int) -> Floats:
        """(K, grid): each arm's means on an even grid over [0, 1], both ends included."""
        return self.means(np.linspace(0.0, 1.0, grid)).T


def zigzag(arms: int, *, noise: float) -> Environment:
    """The paper's simulation: f_a(x) = 1 − |x − φ_a|, φ_a = 4·min |θ_a − z| over z in {0, ½, 1}.

    Features: `theta`, the arm's place on [0, 1], which misleads, since arms far apart can have the
    same curve; and `phi`, the peak of that curve, which does not.
    """
    theta = _even(arms)
    phi = 4.0 * np.abs(theta[:, np.newaxis] - np.array([0.0, 0.5, 1.0])).min(axis=1)
    return Environment(
        arms=arms,
        noise=noise,
        lipschitz=1.0,
        mean_curves=Tents(phi, slope=1.0),
        features={"theta": theta, "phi": phi},
    )


def continuum(arms: int, *, noise: float, lipschitz: float) -> Environment:
    """f_a(x) = 1 − L·|x − θ_a|: neighbours among the arms are alike. Feature: `theta`."""
    if not 0.0 < lipschitz <= 1.0:
        raise ValueError(f"lipschitz must be in (0, 1] to keep the means in [0, 1]: {lipschitz}")
    theta = _even(arms)
    return Environment(
        arms=arms,
        noise=noise,
        lipschitz=lipschitz,
        mean_curves=Tents(theta, slope=lipschitz),
        features={"theta": theta},
    )


def finite_types(
    arms: int, *, types: int, noise: float, lipschitz: float, seed: int
) -> Environment:
    """A few random curves, each shared by as many arms as any other (±1). Feature: `type`."""
    if not 1 <= types <= arms:
        raise ValueError(f"types must be between 1 and the number of arms, {arms}: {types}")
    if lipschitz <= 0.0:
        raise ValueError(f"lipschitz must be above 0: {lipschitz}")
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(-lipschitz, lipschitz, size=(PIECES, types))
    start = rng.uniform(0.0, 1.0, size=(1, types))
    walk = np.concatenate([start, start + np.cumsum(slopes, axis=0) / PIECES])
    # Folded back at 0 and 1 the walk stays in range, and folding makes no slope steeper.
    values = 1.0 - np.abs(1.0 - np.mod(walk, 2.0))
    kind = rng.permutation(np.arange(arms, dtype=np.int64) % types)
    return Environment(
        arms=arms,
        noise=noise,
        lipschitz=lipschitz,
        mean_curves=Polylines(values[:, kind]),
        features={"type": kind.astype(np.float64)},
    )


def bernoulli(env: Environment) -> Environment:
    """The same means with rewards of 0 or 1; their standard deviation is at most 0.5."""
    return replace(env, bernoulli=True, noise=0.5)


def permuted(env: Environment, *, seed: int) -> Environment:
    """The same arms in a random order, so that an arm's number says nothing about its curve."""
    order = np.random.default_rng(seed).permutation(env.arms)
    features = {name: values[order] for name, values in env.features.items()}
    return replace(env, mean_curves=env.mean_curves.take(order), features=features)


def scrambled(env: Environment) -> Environment:
    """The same arms, told by a `theta` that is shuffled: evenly spread as before, but no longer a
    guide to the curves. A measure-preserving map of [0, 1], in steps: θ ↦ g·θ mod 1 on the grid of
    the arms, with g near the golden section of their number, so that neighbours come far apart.
    """
    stride = next(
        step
        for step in range(round(0.618 * env.arms), 2 * env.arms)
        if math.gcd(step, env.arms) == 1
    )
    place = np.arange(env.arms) * stride % env.arms
    return replace(env, features={**env.features, "theta": _even(env.arms)[place]})


def load(name: str, *, arms: int, noise: float, seed: int) -> Environment:
    """The environment of this name, or one's own, given as MODULE:FUNCTION.

    The function is called as `function(arms, noise=noise)` and returns an `Environment`; its module
    is looked for in the working directory too. A process of its own must be able to import it.
    """
    match name:
        case "zigzag":
            return zigzag(arms, noise=noise)
        case "types":
            types = min(TYPES, arms)
            return finite_types(arms, types=types, noise=noise, lipschitz=1.0, seed=seed)
        case "continuum":
            return continuum(arms, noise=noise, lipschitz=1.0)
        case "bernoulli":
            return bernoulli(zigzag(arms, noise=noise))
        case _:
            try:
                made = _own(name)(arms, noise=noise)
            except TypeError as error:
                raise ValueError(
                    f"'{name}' cannot be called with (arms, noise=…): {error}"
                ) from error
            if not isinstance(made, Environment):
                raise ValueError(f"'{name}' returned no Environment, but {made!r}")
            return made


def _own(name: str) -> Callable[..., object]:
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(
            f"there is no environment '{name}': use zigzag, types, continuum, bernoulli, or your "
            "own as MODULE:FUNCTION"
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Callable[..., object] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"the environment '{name}' cannot be loaded: {error}") from error
    return found


def _even(arms: int) -> Floats:
    """θ_a = a/(K − 1): the arms spread over [0, 1]; a single arm sits at 0."""
    if arms < 1:
        raise ValueError(f"there must be at least one arm: {arms}")
    return np.arange(arms) / max(arms - 1, 1)
