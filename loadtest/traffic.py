"""What a load test sends: trials drawn in advance from a seed, whatever the service answers.

When each trial begins (Poisson arrivals), for which tenant, at which context, and what becomes of
its reward: late by how much, lost, or sent twice. Nothing here knows HTTP or the clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from loadtest.environments import Environment, Floats

BLOCK = 1024  # trials drawn at once: numpy is slow for one number and fast for many
_SHAPES = {"fixed": 1, "exponential": 1, "uniform": 2, "lognormal": 2}
DELAY_HELP = "SECONDS, exponential:MEAN, uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA"


@dataclass(frozen=True)
class Delay:
    """How long a reward takes to come, in seconds, as a distribution."""

    shape: str
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Delay":
        """From a form such as `2`, `fixed:2`, `exponential:0.5`, `uniform:1,3`, `lognormal:2,1`."""
        shape, colon, rest = text.partition(":")
        shape, rest = (shape, rest) if colon else ("fixed", text)
        try:
            numbers = tuple(float(number) for number in rest.split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != _SHAPES.get(shape) or not all(0 <= n < np.inf for n in numbers):
            raise ValueError(f"a delay is {DELAY_HELP}, in seconds, not '{text}'")
        if shape == "uniform" and numbers[0] > numbers[1]:
            raise ValueError(f"the delay '{text}' ends before it begins")
        return cls(shape, numbers)

    def draw(self, rng: np.random.Generator, *, size: int) -> Floats:
        """So many delays."""
        match self.shape, self.numbers:
            case "exponential", (mean,):
                return rng.exponential(mean, size)
            case "uniform", (low, high):
                return rng.uniform(low, high, size)
            case "lognormal", (median, sigma):
                return median * rng.lognormal(0.0, sigma, size)
            case _:
                return np.full(size, self.numbers[0])

    def __str__(self) -> str:
        return f"{self.shape}:{','.join(f'{number:g}' for number in self.numbers)}"


class Trial(NamedTuple):
    """One select and what will become of its reward."""

    at_seconds: float  # after the start; in a closed loop, where nothing is planned, 0
    tenant: int
    context: float
    means: Floats  # of every arm at this context
    lost: bool
    duplicated: bool
    delay_seconds: float


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The trials of one process; the same seed gives the same trials."""

    environment: Environment
    seed: np.random.SeedSequence
    rate: float | None  # arrivals a second; `None` in a closed loop
    tenants: int
    delay: Delay
    lost: float
    duplicates: float

    def trials(self) -> Iterator[Trial]:
        """Trials without end."""
        rng = np.random.default_rng(self.seed)
        clock = 0.0
        while True:
            gaps = rng.exponential(1.0 / self.rate, BLOCK) if self.rate else np.zeros(BLOCK)
            at_seconds = clock + np.cumsum(gaps)
            clock = float(at_seconds[-1])
            contexts = rng.random(BLOCK)
            yield from map(
                Trial._make,
                zip(
                    at_seconds.tolist(),
                    rng.integers(self.tenants, size=BLOCK).tolist(),
                    contexts.tolist(),
                    self.environment.means(contexts),
                    (rng.random(BLOCK) < self.lost).tolist(),
                    (rng.random(BLOCK) < self.duplicates).tolist(),
                    self.delay.draw(rng, size=BLOCK).tolist(),
                    strict=True,
                ),
            )
