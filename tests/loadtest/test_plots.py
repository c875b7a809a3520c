"""Charts are well-formed and show what they are given, within their frame."""

import xml.etree.ElementTree as ET

import pytest

from loadtest.plots import HEIGHT, WIDTH, Chart, Line, draw

SVG = "{http://www.w3.org/2000/svg}"


def chart(*lines: Line, **options: bool) -> ET.Element:
    """A chart, drawn and parsed."""
    drawn = draw(Chart(title="a < b & c", x_label="x", y_label="y", lines=lines, **options))
    return ET.fromstring(drawn)  # noqa: S314 - our own text


def line(ys: list[float], *, xs: list[float] | None = None, dashed: bool = False) -> Line:
    """A line over 0, 1, 2, …"""
    return Line(name="<l>", xs=xs or list(map(float, range(len(ys)))), ys=ys, dashed=dashed)


def points(svg: ET.Element) -> list[list[tuple[float, float]]]:
    """Where the lines run."""
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in path.split())]
        for path in (found.get("points") or "" for found in svg.iter(f"{SVG}polyline"))
    ]


def labels(svg: ET.Element) -> list[str]:
    """All that is written."""
    return [text.text or "" for text in svg.iter(f"{SVG}text")]


def test_lines_run_from_left_to_right_and_upwards() -> None:
    """Within the frame, the larger the higher."""
    (path,) = points(chart(line([1.0, 2.0, 4.0])))
    assert path == sorted(path)
    heights = [y for _, y in path]
    assert heights == sorted(heights, reverse=True)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in path)


def test_texts_are_escaped_and_the_legend_names_each_line() -> None:
    """A title may hold anything."""
    found = labels(chart(line([1.0, 2.0]), line([3.0, 4.0], dashed=True)))
    assert found[0] == "a < b & c"
    assert found.count("<l>") == 2


def test_a_logarithmic_axis_gives_each_factor_the_same_height() -> None:
    """And leaves out what has no logarithm."""
    (path,) = points(chart(line([0.0, 1.0, 10.0, 100.0]), log=True))
    (_, low), (_, middle), (_, high) = path
    assert low - middle == pytest.approx(middle - high, abs=0.2)


def test_each_nine_of_a_percentile_has_the_same_width() -> None:
    """100 has infinitely many, and is left out."""
    svg = chart(line([1.0, 2.0, 3.0, 4.0], xs=[0.0, 90.0, 99.0, 100.0]), nines=True)
    ((first, _), (second, _), (third, _)) = points(svg)[0]
    assert second - first == pytest.approx(third - second, abs=0.2)
    assert {"0%", "50%", "90%", "99%"} <= set(labels(svg))


@pytest.mark.parametrize(
    "ys", [[5.0], [0.0, 0.0], [3.0, 3.0], [-2.0, 1e9], [1e-7, 2e-7], [0.5, float("1e-12")]]
)
@pytest.mark.parametrize("log", [False, True])
def test_any_numbers_can_be_drawn(ys: list[float], log: bool) -> None:
    """A flat line, one point, the very large and the very small."""
    for path in points(chart(line(ys), log=log)):
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in path)


def test_a_chart_of_nothing_says_so() -> None:
    """Rather than show an empty frame."""
    svg = chart(line([]))
    assert points(svg) == []
    assert "nothing was measured" in labels(svg)
