"""The Grafana dashboards as tests read them: panels, queries, the metrics that a query names."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "ops/grafana/dashboards").glob("*.json"))

Json = dict[str, Any]

# What may hold words that are no metrics. A string may hold braces, so strings go first.
_STRING = re.compile(r'"[^"]*"')
_NO_METRICS = re.compile(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)")
_NAME = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*")
_OPERATORS = {"and", "or", "unless", "bool", "offset"}


@dataclass(frozen=True)
class Selector:
    """One place in a query where a metric is named."""

    metric: str
    before: str  # the query up to here, its white space single spaces
    matchers: str  # what stands in braces
    window: str  # what stands in brackets

    @property
    def function(self) -> str:
        """The function or aggregation directly around it."""
        found = re.search(r"(\w+)(?: by \([^)]*\))? ?\($", self.before)
        return found[1] if found else ""


def load(file: Path) -> Json:
    """A dashboard."""
    dashboard: Json = json.loads(file.read_text())
    return dashboard


def panels(dashboard: Json) -> list[Json]:
    """The panels that show something, so not the rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Json) -> Iterator[tuple[str, str]]:
    """The title of the panel and the expression, for every query of every panel."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with the values of the variables in it, as Grafana sends it."""
    return re.sub(r"\$\{?(\w+)\}?", lambda name: variables[name[1]], text)


def variables_of(text: str) -> set[str]:
    """The names of the variables that a text uses, without Grafana's own."""
    return {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}


def selectors(expression: str) -> list[Selector]:
    """Every metric that a query names, with what surrounds it."""
    masked = _STRING.sub(lambda found: "_" * len(found[0]), expression)
    masked = _NO_METRICS.sub(lambda found: " " * len(found[0]), masked)
    found = []
    for name in _NAME.finditer(masked):
        rest = expression[name.end() :]
        called = masked[name.end() :].lstrip().startswith("(")
        if called or name[0] in _OPERATORS or set(name[0]) == {"_"}:
            continue
        after = re.match(r'(?:\{((?:"[^"]*"|[^}"])*)\})?(?:\[([^]]*)\])?', rest)
        assert after is not None
        before = re.sub(r"\s+", " ", expression[: name.start()])
        found.append(Selector(name[0], before, after[1] or "", after[2] or ""))
    return found
