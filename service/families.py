"""Metrics of many series, made at a scrape, as text.

Prometheus's own library takes several times as long for a series, and each tenant has dozens.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from prometheus_client.utils import floatToGoString


@dataclass(frozen=True)
class Family:
    """A metric: its series are labels, as `label="value"` between commas, and a value.

    Nothing is escaped: what goes in here are texts of our own and the names of tenants.
    """

    kind: Literal["counter", "gauge"]
    name: str
    help: str
    series: Iterable[tuple[str, float]]

    def text(self, *, openmetrics: bool) -> str:
        """In the OpenMetrics format, or in Prometheus's older one."""
        series_name = f"{self.name}_total" if self.kind == "counter" else self.name
        name = self.name if openmetrics else series_name
        lines = [f"# HELP {name} {self.help}", f"# TYPE {name} {self.kind}"]
        lines += [
            f"{series_name}{{{labels}}} {_number(value)}"
            if labels
            else f"{series_name} {_number(value)}"
            for labels, value in self.series
        ]
        return "\n".join([*lines, ""])


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]
