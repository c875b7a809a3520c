"""Line charts as inline SVG, drawn by hand: axes, ticks, a legend, and colours by CSS variables.

The page that holds a chart sets `--line-0` to `--line-3`, `--ink` and `--grid`, and so its colours
follow the reader's light or dark setting.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 64, 48
_TICKS = 6
_LEGEND_STEP = 24  # between the names of two lines, beside their letters
_LETTER = 6.6

Scale = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A named line; a dashed one is there for comparison."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines over a common pair of axes.

    With `nines` the x axis holds percentiles and each nine has the same width; with `log` the y
    axis is logarithmic.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    from_zero: bool = False
    log: bool = False
    nines: bool = False


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """From numbers to places: `place` is 0 at the low end and 1 at the high end."""

    place: Scale
    ticks: Sequence[tuple[float, str]]


def draw(chart: Chart) -> str:
    """The chart as an `svg` element."""
    points = [(x, y) for line in chart.lines for x, y in _points(line, chart)]
    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(chart.title)}</text>']
    if points:
        xs, ys = zip(*points, strict=True)
        x_axis = _nines_axis(max(xs)) if chart.nines else _axis(0.0, max(xs), tight=True)
        low = 0.0 if chart.from_zero else min(ys)
        y_axis = _log_axis(min(ys), max(ys)) if chart.log else _axis(low, max(ys), tight=False)
        parts += _frame(chart, x_axis, y_axis)
        parts += [
            _path(_points(line, chart), x_axis, y_axis, number=number, dashed=line.dashed)
            for number, line in enumerate(chart.lines)
        ]
        parts += _legend(chart.lines)
    else:
        parts.append(
            f'<text class="label" x="{_LEFT}" y="{HEIGHT / 2}">nothing was measured</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _points(line: Line, chart: Chart) -> list[tuple[float, float]]:
    """What can be shown of a line: a logarithm has no place for 0, nor have the nines for 100."""
    return [
        (x, y)
        for x, y in zip(line.xs, line.ys, strict=True)
        if (y > 0 or not chart.log) and (x < 100 or not chart.nines)
    ]


def _axis(low: float, high: float, *, tight: bool) -> _Axis:
    """Even ticks at round numbers; a tight axis ends with the data, another one with a tick."""
    if high <= low:
        low, high = low - 0.5 * (low != 0.0), low + 1.0
    step = _round_step((high - low) / _TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if tight:
        begin, end = low, high
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    else:
        begin, end = first * step, last * step
    ticks = [(tick * step, _label(tick * step, step)) for tick in range(first, last + 1)]
    return _Axis(place=lambda value: (value - begin) / (end - begin), ticks=ticks)


def _log_axis(low: float, high: float) -> _Axis:
    """Ticks at 1, 2, 5 times the powers of ten; over many decades at the powers alone."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
    factors = (1, 2, 5) if len(decades) <= 5 else (1,)
    marks = [factor * 10.0**decade for decade in decades for factor in factors]
    begin = max(mark for mark in marks if mark <= low * (1 + 1e-9))
    end = min(mark for mark in marks if mark >= high * (1 - 1e-9) and mark > begin)
    ticks = [(mark, _label(mark, mark)) for mark in marks if begin <= mark <= end]
    span = math.log10(end / begin)
    return _Axis(place=lambda value: math.log10(value / begin) / span, ticks=ticks)


def _nines_axis(highest: float) -> _Axis:
    """Percentiles so that 90, 99, 99.9 … are equally far apart."""

    def nines(percentile: float) -> float:
        return -math.log10(1.0 - percentile / 100.0)

    end = max(1.0, nines(highest))
    marks = [0.0, 50.0, *(100.0 * (1.0 - 10.0**-count) for count in range(1, int(end + 1e-9) + 1))]
    ticks = [(mark, f"{mark:.6g}%") for mark in marks]
    return _Axis(place=lambda percentile: nines(percentile) / end, ticks=ticks)


def _round_step(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _label(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{digits}f}"


def _x(place: float) -> float:
    return _LEFT + place * (WIDTH - _LEFT - _RIGHT)


def _y(place: float) -> float:
    return HEIGHT - _BOTTOM - place * (HEIGHT - _TOP - _BOTTOM)


def _frame(chart: Chart, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts = []
    for value, label in x_axis.ticks:
        x = _x(x_axis.place(value))
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_y(0)}" y2="{_y(1)}"/>'
            f'<text class="label" x="{x:.1f}" y="{_y(0) + 16}" text-anchor="middle">{label}</text>'
        )
    for value, label in y_axis.ticks:
        y = _y(y_axis.place(value))
        parts.append(
            f'<line class="grid" x1="{_x(0)}" x2="{_x(1)}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="label" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    middle = (_y(0) + _y(1)) / 2
    parts.append(
        f'<text class="label" x="{(_x(0) + _x(1)) / 2}" y="{HEIGHT - 10}" '
        f'text-anchor="middle">{escape(chart.x_label)}</text>'
        f'<text class="label" x="14" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle})">{escape(chart.y_label)}</text>'
    )
    return parts


def _path(
    points: Sequence[tuple[float, float]],
    x_axis: _Axis,
    y_axis: _Axis,
    *,
    number: int,
    dashed: bool,
) -> str:
    steps = " ".join(f"{_x(x_axis.place(x)):.1f},{_y(y_axis.place(y)):.1f}" for x, y in points)
    return f'<polyline class="line-{number}{" dashed" if dashed else ""}" points="{steps}"/>'


def _legend(lines: Sequence[Line]) -> list[str]:
    widths = [len(line.name) * _LETTER + 26 + _LEGEND_STEP for line in lines]
    starts = [sum(widths[:number]) + _LEFT for number in range(len(lines))]
    return [
        f'<line class="line-{number}{" dashed" if line.dashed else ""}" x1="{start:.0f}" '
        f'x2="{start + 20:.0f}" y1="42" y2="42"/>'
        f'<text class="label" x="{start + 26:.0f}" y="46">{escape(line.name)}</text>'
        for number, (line, start) in enumerate(zip(lines, starts, strict=True))
    ]
