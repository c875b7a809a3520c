"""The service under test, beside the load: its tenants, its counters, its metrics."""

import ssl
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from loadtest.plan import Access, BadPlan
from service.errors import ZoomingError

OUTCOMES = ("applied", "duplicate", "conflict", "late", "unknown")
_TIMEOUT_SECONDS = 30.0
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
    """A client of the service's other calls, with the admin key."""

    def __init__(self, url: str, *, admin_key: str, metrics_key: str) -> None:
        self.url = url
        self._admin = _bearer(admin_key)
        self._metrics = _bearer(metrics_key) or self._admin
        # As the load goes: past any proxy, and with the certificates of the system.
        self._client = httpx.Client(
            base_url=url,
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
            verify=ssl.create_default_context(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def verify(self) -> None:
        """Makes sure that a service answers there and lets us in."""
        answer = self._admin_call("GET", "/tenants")
        if answer.status_code == 200 and answer.headers["content-type"] == "application/json":
            return
        if answer.status_code in (401, 403):
            raise TargetUnusable(
                f"{self.url} wants its admin key: set ZOOMING_ADMIN_KEY to the service's."
            )
        raise TargetUnusable(
            f"{self.url} answered GET /tenants with {answer.status_code}. Is --url the address of "
            "the service, and is it ready (GET /health/ready)?"
        )

    def create(self, name: str, configuration: Mapping[str, Any]) -> Access:
        """A new tenant; one of this name that exists is deleted first."""
        answer = self._admin_call("PUT", f"/tenants/{name}", json=configuration)
        if answer.status_code in (200, 409):
            self.delete(name)
            answer = self._admin_call("PUT", f"/tenants/{name}", json=configuration)
        if answer.status_code == 422:
            raise BadPlan(
                "the service refuses the tenants' configuration, see --arms, --noise, --preset "
                f"and --set: {answer.text}"
            )
        _expect(answer, 201)
        return Access(name=name, key=answer.json()["api_key"])

    def delete(self, name: str) -> None:
        """Deletes a tenant, if it exists."""
        _expect(self._admin_call("DELETE", f"/tenants/{name}"), 204, 404)

    def counts(self, names: Sequence[str], *, metrics: Metrics | None) -> dict[str, TenantCounts]:
        """Of each tenant, from the metrics where it is listed, else from the tenant itself."""
        listed = {name: metrics.counts(name) if metrics else None for name in names}
        return {name: found or self._counters(name) for name, found in listed.items()}

    def metrics(self) -> Metrics | None:
        """A reading of /metrics, or nothing when the service has none for us."""
        try:
            answer = self._client.get(
                "/metrics", headers=self._metrics, timeout=_METRICS_TIMEOUT_SECONDS
            )
        except httpx.TransportError:
            return None
        if answer.status_code != 200:
            return None
        return Metrics.parse(answer.text, at=time.monotonic())

    def _counters(self, name: str) -> TenantCounts:
        answer = self._admin_call("GET", f"/tenants/{name}")
        _expect(answer, 200)
        counters = answer.json()["counters"]
        return TenantCounts(
            counters["trials_active"] + counters["trials_flagged"],
            {outcome: counters[f"rewards_{outcome}"] for outcome in OUTCOMES},
        )

    def _admin_call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, headers=self._admin, **arguments)
        except httpx.TransportError as error:
            raise TargetUnusable(
                f"{self.url} does not answer ({error}). Is the service running there? "
                "Start one with: zooming serve"
            ) from error


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _expect(answer: httpx.Response, *statuses: int) -> None:
    if answer.status_code not in statuses:
        request = answer.request
        raise TargetUnusable(
            f"{request.method} {request.url} was answered with {answer.status_code}: {answer.text}"
        )
