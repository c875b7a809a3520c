"""The service under test, beside the load: its tenants, its counters, its metrics."""

import ssl
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from loadtest.plan import Access, BadPlan
from service.client import (
    Client,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Retry,
    Unauthenticated,
    ZoomingClientError,
)
from service.client.caller import LIMITS
from service.errors import ZoomingError

OUTCOMES = ("applied", "duplicate", "conflict", "late", "unknown")
_TIMEOUT_SECONDS = 30.0
# Over a worker that was killed, but not for long: a service that is gone is gone for every tenant.
_RETRY = Retry(tries=3)
_METRICS_TIMEOUT_SECONDS = 5.0


class TargetUnusable(ZoomingError):
    """The service cannot be tested; the message says what to do."""


@dataclass(frozen=True)
class TenantCounts:
    """What the service counts of a tenant."""

    trials: int
    rewards: Mapping[str, int]  # by outcome


@dataclass
class Metrics:
    """What one reading of /metrics says that a load test needs."""

    at: float
    trials: Counter[str] = field(default_factory=Counter)
    rewards: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)  # by route and status
    regret_upper: dict[str, float] = field(default_factory=dict)
    regret_estimate: dict[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, *, at: float) -> Self:
        """From the text that Prometheus reads."""
        found = cls(at=at)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels, value = sample.labels, sample.value
                match sample.name:
                    case "zooming_trials_total":
                        found.trials[labels["tenant"]] += int(value)
                    case "zooming_rewards_total":
                        found.rewards[labels["tenant"], labels["outcome"]] += int(value)
                    case "zooming_http_requests_total":
                        found.requests[labels["route"], labels["status"]] += int(value)
                    case "zooming_regret_upper":
                        found.regret_upper[labels["tenant"]] = value
                    case "zooming_regret_estimate":
                        found.regret_estimate[labels["tenant"]] = value
        return found

    def counts(self, tenant: str) -> TenantCounts | None:
        """Of a tenant that is listed under its own name."""
        if tenant not in self.trials:
            return None
        outcomes = {outcome: self.rewards[tenant, outcome] for outcome in OUTCOMES}
        return TenantCounts(self.trials[tenant], outcomes)


class Target:
    """The service's calls that are not measured, with the admin key."""

    def __init__(self, url: str, *, admin_key: str, metrics_key: str) -> None:
        self.url = url
        self._client = Client(
            url, key=admin_key, retry=_RETRY, timeout_seconds=_TIMEOUT_SECONDS, http=_connections()
        )
        self._metrics = Client(
            url,
            key=metrics_key or admin_key,
            retry=Retry(tries=1),  # a reading that fails is left out
            timeout_seconds=_METRICS_TIMEOUT_SECONDS,
            http=_connections(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._metrics.close()

    def verify(self) -> None:
        """Makes sure that a service answers there and lets us in."""
        if not self._client.ready():
            raise TargetUnusable(
                f"{self.url} does not answer that it is ready (GET /health/ready). Is the service "
                "running there? Start one with: zooming serve"
            )
        try:
            self._client.tenants()
        except (Unauthenticated, Forbidden) as error:
            raise TargetUnusable(
                f"{self.url} wants its admin key: set ZOOMING_ADMIN_KEY to the service's."
            ) from error
        except ZoomingClientError as error:
            raise TargetUnusable(f"{error} Is --url the address of the service?") from error

    def create(self, name: str, configuration: Mapping[str, Any]) -> Access:
        """A new tenant; one of this name that exists is deleted first."""
        key = self._create(name, configuration)
        if key is None:
            self.delete(name)
            key = self._create(name, configuration)
        if key is None:
            raise TargetUnusable(f"Someone else makes the tenant {name} at the same time.")
        return Access(name=name, key=key)

    def _create(self, name: str, configuration: Mapping[str, Any]) -> str | None:
        """Its key, if there was no such tenant."""
        try:
            return self._client.create_tenant(name, **configuration).api_key
        except Conflict:
            return None
        except Invalid as error:
            raise BadPlan(
                "the service refuses the tenants' configuration, see --arms, --noise, --preset "
                f"and --set: {error}"
            ) from error

    def delete(self, name: str) -> None:
        """Deletes a tenant, if it exists."""
        with suppress(NotFound):
            self._client.delete_tenant(name)

    def counts(self, names: Sequence[str], *, metrics: Metrics | None) -> dict[str, TenantCounts]:
        """Of each tenant, from the metrics where it is listed, else from the tenant itself."""
        listed = {name: metrics.counts(name) if metrics else None for name in names}
        return {name: found or self._counters(name) for name, found in listed.items()}

    def metrics(self) -> Metrics | None:
        """A reading of /metrics, or nothing when the service has none for us."""
        try:
            return Metrics.parse(self._metrics.metrics(), at=time.monotonic())
        except ZoomingClientError:
            return None

    def _counters(self, name: str) -> TenantCounts:
        counters = self._client.tenant(name).counters
        return TenantCounts(
            int(counters["trials_active"] + counters["trials_flagged"]),
            {outcome: int(counters[f"rewards_{outcome}"]) for outcome in OUTCOMES},
        )


def _connections() -> httpx.Client:
    """As the load goes: past any proxy, and with the certificates of the system."""
    verify = ssl.create_default_context()
    return httpx.Client(trust_env=False, verify=verify, limits=LIMITS)
