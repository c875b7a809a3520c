"""A report as Markdown that can also be read as it stands."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadtest.tables import Table


def render(numbers: Mapping[str, Any], tables: Sequence[Table]) -> str:
    """The verdict, then the tables."""
    parts = [f"# Load test: {headline(numbers)}", *(_table(table) for table in tables)]
    return "\n\n".join(parts) + "\n"


def headline(numbers: Mapping[str, Any]) -> str:
    """The verdict in a few words."""
    said = "passed" if numbers["passed"] else "FAILED"
    return f"{said}, ended early" if numbers["interrupted"] else said


def _table(table: Table) -> str:
    lines = [f"## {table.title}", ""]
    if table.rows:
        rows = [table.columns, *table.rows]
        widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
        texts = [_line(row, widths) for row in rows]
        ruler = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
        lines += [texts[0], ruler, *texts[1:]]
    if table.note:
        lines += ["", table.note] if table.rows else [table.note]
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    return f"| {' | '.join(cells)} |"
