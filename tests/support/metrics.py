"""Reads a service's metrics as Prometheus would."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.servers import Service

Labels = frozenset[tuple[str, str]]


class Page:
    """One answer of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples: dict[tuple[str, Labels], float] = {}
        for family in self.families.values():
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.samples, f"{key} stands there twice"
                self.samples[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        """The value of one series."""
        return self.samples[name, frozenset(labels.items())]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of all series that have these labels."""
        return sum(
            value
            for (found, given), value in self.samples.items()
            if found == name and labels.items() <= set(given)
        )

    def labels(self, name: str, label: str) -> set[str]:
        """The values that a label has."""
        return {dict(given)[label] for found, given in self.samples if found == name}


def scrape(service: Service) -> Page:
    """The metrics as they are now, asked for on a connection of its own: any worker answers."""
    answer = httpx.get(f"{service.url}/metrics", timeout=30).raise_for_status()
    return Page(answer.text)
