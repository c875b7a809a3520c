"""What a load test is to do, checked and resolved; every process gets a copy."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from loadtest import environments
from loadtest.environments import Environment
from loadtest.traffic import Delay, Traffic
from service.errors import ZoomingError

SECONDS = 30.0
FOREVER_TRIALS = 10_000
# A closed loop by time cannot know its trials in advance; the horizon stands under a logarithm.
_TRIALS_A_SECOND = 500


class BadPlan(ZoomingError):
    """A flag has a value that cannot be used; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A tenant of the load test and the key that opens it."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What the run must keep to pass; `None` asks nothing."""

    max_p99_ms: float | None = None
    max_error_share: float | None = None
    min_rate: float | None = None
    min_reward_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A load test: open loop with a `rate`, closed loop with `clients`."""

    url: str
    environment: Environment
    environment_name: str
    rate: float | None
    clients: int
    trials: int | None
    seconds: float | None
    tenants: int
    delay: Delay
    lost: float
    duplicates: float
    processes: int
    seed: int
    timeout_seconds: float
    name: str
    parameters: Mapping[str, Any]  # of the tenants' configuration
    thresholds: Thresholds
    report: Path | None
    keep: bool
    shared: bool
    forever: bool

    def __post_init__(self) -> None:
        if self.rate is None and self.clients < self.processes:
            raise ValueError(
                f"{self.clients} clients cannot be shared by {self.processes} processes: "
                "give fewer --processes or more --clients"
            )
        if self.trials is not None and self.trials < self.processes:
            raise ValueError(
                f"{self.trials} trials cannot be shared by {self.processes} processes: "
                "give fewer --processes or more --trials"
            )

    @classmethod
    def load(cls, flags: Mapping[str, Any]) -> "Plan":
        """From the flags of `zooming loadtest`; a `BadPlan` says which cannot be used."""
        try:
            return cls._resolve(dict(flags))
        except ValueError as error:
            raise BadPlan(str(error)) from error

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> "Plan":
        noise, arms = given.pop("noise"), given.pop("arms")
        name, preset = given["environment"], given.pop("preset")
        limits = {field.name: given.pop(field.name) for field in fields(Thresholds)}
        given["environment"] = environments.load(name, arms=arms, noise=noise, seed=given["seed"])
        given["delay"] = Delay.parse(given["delay"])
        given["parameters"] = dict(given.pop("parameters")) | ({"preset": preset} if preset else {})
        # Under a name that stays, a test without end finds again what it left when it was killed.
        new_name = "loadtest" if given["forever"] else f"loadtest-{secrets.token_hex(3)}"
        given["name"] = given["name"] or new_name
        if given["trials"] is None and given["seconds"] is None:
            given |= {"trials": FOREVER_TRIALS} if given["forever"] else {"seconds": SECONDS}
        return cls(environment_name=name, thresholds=Thresholds(**limits), **given)

    @property
    def expected_seconds(self) -> float | None:
        """How long it should take, where that is known."""
        if self.seconds is not None:
            return self.seconds
        assert self.trials is not None
        return self.trials / self.rate if self.rate else None

    @property
    def horizon(self) -> int:
        """T of each tenant: the trials it will see, or about that."""
        if self.trials is not None:
            trials = float(self.trials)
        else:
            assert self.seconds is not None
            trials = self.seconds * (self.rate or _TRIALS_A_SECOND)
        return max(2, math.ceil(trials / self.tenants))

    @property
    def configuration(self) -> dict[str, Any]:
        """The body with which each tenant is created."""
        environment = self.environment
        about = {"arms": environment.arms, "horizon": self.horizon, "noise": environment.noise}
        return about | dict(self.parameters)

    def __str__(self) -> str:
        loop = f"{self.rate:g} selects a second" if self.rate else f"{self.clients} clients"
        length = f"{self.seconds:g} s" if self.seconds is not None else f"{self.trials} trials"
        arms = f"{self.environment_name}, {self.environment.arms} arms, {self.tenants} tenant(s)"
        return f"{arms}: {loop} in {self.processes} process(es) for {length}, at {self.url}"

    def tenant_names(self) -> list[str]:
        """The tenants, counted from 1."""
        return [f"{self.name}-{number + 1}" for number in range(self.tenants)]

    def clients_of(self, process: int) -> int:
        """How many of the clients are this process's."""
        return _part(self.clients, process, of=self.processes)

    def trials_of(self, process: int) -> int | None:
        """How many of the trials are this process's."""
        return None if self.trials is None else _part(self.trials, process, of=self.processes)

    def traffic_of(self, process: int) -> Traffic:
        """This process's part of the traffic; parts of a Poisson stream are Poisson streams."""
        seeds = np.random.SeedSequence(self.seed).spawn(self.processes)
        return Traffic(
            environment=self.environment,
            seed=seeds[process],
            rate=self.rate and self.rate / self.processes,
            tenants=self.tenants,
            delay=self.delay,
            lost=self.lost,
            duplicates=self.duplicates,
        )


def _part(whole: int, index: int, *, of: int) -> int:
    return whole // of + (index < whole % of)
