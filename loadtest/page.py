"""A report as one page that needs nothing else: no script, no font, no file beside it."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from loadtest.markdown import headline
from loadtest.plots import Chart, Line, draw
from loadtest.tables import Table

# The lines' colours are Okabe and Ito's, which the colour-blind can tell apart.
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --card: #f5f6f8; --ink: #1b1f24;
  --faint: #5b6470; --grid: #dfe3e8; --good: #00734f; --bad: #b03a00;
  --line-0: #0072b2; --line-1: #d55e00; --line-2: #009e73; --line-3: #cc79a7; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1d2126; --ink: #e8eaed;
  --faint: #9aa4b0; --grid: #343a42; --good: #3fd0a0; --bad: #ff9a5c;
  --line-0: #56b4e9; --line-1: #e69f00; --line-2: #2fc79a; --line-3: #cc79a7; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 24px; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 28px 0 8px; }
header p { color: var(--faint); margin: 4px 0 16px; }
.good { color: var(--good); } .bad { color: var(--bad); }
.tiles { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }
.tiles div { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.tiles b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--faint); font-size: 13px; }
.charts { display: grid; gap: 12px; margin-top: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(500px, 100%), 1fr)); }
.charts svg { background: var(--card); border-radius: 8px; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .title { font-weight: 600; font-size: 14px; } svg .label { fill: var(--faint); }
svg .grid { stroke: var(--grid); }
svg polyline, svg [class^=line] { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .line-0 { stroke: var(--line-0); } svg .line-1 { stroke: var(--line-1); }
svg .line-2 { stroke: var(--line-2); } svg .line-3 { stroke: var(--line-3); }
svg .dashed { stroke-dasharray: 6 4; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--grid); padding: 4px 20px 4px 0; text-align: left; }
th { color: var(--faint); font-weight: 500; } td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; }
.note { color: var(--faint); max-width: 70ch; margin: 8px 0 0; }
.tables { display: grid; gap: 0 48px;
  grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); }
.wide { grid-column: 1 / -1; overflow-x: auto; }
"""
_WIDE = ("Set-up", "Latency")
_GOOD, _BAD = ("equal", "kept"), ("DIFFERENT", "MISSED")


def render(numbers: Mapping[str, Any], tables: Sequence[Table]) -> str:
    """The whole page."""
    setup = numbers["setup"]
    tone = "good" if numbers["passed"] else "bad"
    about = f"{setup['environment']}, {setup['arms']} arms, {setup['loop']}, {setup['length']}"
    charts_drawn = "".join(draw(chart) for chart in charts(numbers))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Load test: {headline(numbers)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>Load test: <span class="{tone}">{headline(numbers)}</span></h1>
<p>{escape(about)}, against {escape(setup["service"])}; ended {numbers["finished_at"]}</p>
</header>
<div class="tiles">{_tiles(numbers)}</div>
<div class="charts">{charts_drawn}</div>
<div class="tables">{"".join(_table(table) for table in tables)}</div>
</body>
</html>
"""


def charts(numbers: Mapping[str, Any]) -> list[Chart]:
    """Everything that is drawn."""
    course, curve = numbers["course"], numbers["curve"]
    proxies, distribution = numbers["proxies"], numbers["distribution_ms"]
    seconds = course["seconds"]
    regret = [Line(name="true regret", xs=seconds, ys=course["true_regret"])]
    if proxies["seconds"]:
        regret += [
            Line(name=name, xs=proxies["seconds"], ys=proxies[key], dashed=True)
            for name, key in (("upper proxy", "regret_upper"), ("estimate", "regret_estimate"))
        ]
    return [
        Chart(
            title="Average reward, as it learns",
            x_label="trials",
            y_label="reward",
            lines=[
                Line(name="the service", xs=curve["trials"], ys=curve["reward"]),
                Line(name="random arm", xs=curve["trials"], ys=curve["random_arm"], dashed=True),
                Line(name="optimum", xs=curve["trials"], ys=curve["optimum"], dashed=True),
            ],
        ),
        Chart(
            title="Regret so far, beside what the service thinks of it",
            x_label="seconds",
            y_label="regret",
            lines=regret,
        ),
        Chart(
            title="Latency of select over time",
            x_label="seconds",
            y_label="ms, logarithmic",
            lines=[
                Line(name="p99", xs=seconds, ys=course["p99_ms"]),
                Line(name="p50", xs=seconds, ys=course["p50_ms"]),
            ],
            log=True,
        ),
        Chart(
            title="Latency of select by percentile",
            x_label="percentile",
            y_label="ms, logarithmic",
            lines=[
                Line(
                    name="from when it was due",
                    xs=distribution["percentile"],
                    ys=distribution["due"],
                ),
                Line(
                    name="from when it was sent",
                    xs=distribution["percentile"],
                    ys=distribution["sent"],
                    dashed=True,
                ),
            ],
            log=True,
            nines=True,
        ),
        Chart(
            title="Answered selects a second",
            x_label="seconds",
            y_label="selects a second",
            lines=[Line(name="selects", xs=seconds, ys=course["rate"])],
            from_zero=True,
        ),
        Chart(
            title="Requests in flight",
            x_label="seconds",
            y_label="requests",
            lines=[Line(name="selects and rewards", xs=seconds, ys=course["in_flight"])],
            from_zero=True,
        ),
    ]


def _tiles(numbers: Mapping[str, Any]) -> str:
    traffic, learning = numbers["traffic"], numbers["learning"]
    select = numbers["latency_ms"]["select"]["due"]
    tiles = [
        (f"{traffic['selects_per_second']:.0f}", "selects a second"),
        (f"{select['p50']:.1f} ms", "select, p50"),
        (f"{select['p99']:.1f} ms", "select, p99"),
        (f"{traffic['error_share']:.2%}", "errors"),
        (f"{learning['share_of_the_way_last_quarter']:.0%}", "of the way to the optimum"),
        ("equal" if numbers["counts_equal"] else "DIFFERENT", "counts, client and service"),
    ]
    return "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in tiles)


def _table(table: Table) -> str:
    rows = "".join(f"<tr>{_cells('td', row, table)}</tr>" for row in table.rows)
    head = f"<thead><tr>{_cells('th', table.columns, table)}</tr></thead>"
    body = f"<table>{head if any(table.columns) else ''}<tbody>{rows}</tbody></table>"
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    wide = ' class="wide"' if table.title in _WIDE else ""
    title = f"<h2>{escape(table.title)}</h2>"
    return f"<section{wide}>{title}{body if rows else ''}{note}</section>"


def _cells(tag: str, row: Sequence[str], table: Table) -> str:
    return "".join(
        f'<{tag} class="{_tone(cell)}{_side(table, place)}">{escape(cell)}</{tag}>'
        for place, cell in enumerate(row)
    )


def _tone(cell: str) -> str:
    return "good" if cell in _GOOD else "bad" if cell in _BAD else ""


def _side(table: Table, place: int) -> str:
    """Columns of numbers end at their right side; pairs of name and value need no columns."""
    cells = [row[place] for row in table.rows]
    return " number" if any(table.columns) and all(cell[0].isdigit() for cell in cells) else ""
