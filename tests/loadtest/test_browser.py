"""The report's page in a real browser: its charts are there to be seen."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.loadtest.test_report import EQUAL, report

# Run in the page: how large each chart is, how long and in what colour each line.
PROBE = """
<script>
const charts = [...document.querySelectorAll("svg")].map((svg) => {
  const box = svg.getBoundingClientRect();
  const lines = [...svg.querySelectorAll("polyline")].map((line) => ({
    length: line.getTotalLength(),
    colour: getComputedStyle(line).stroke,
    fill: getComputedStyle(line).fill,
  }));
  return { width: box.width, height: box.height, lines };
});
const wide = document.documentElement.scrollWidth;
document.title = JSON.stringify({ charts, wide, inner: window.innerWidth });
</script>
"""


@pytest.fixture
def chromium() -> str:
    """The browser, or no test."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no chromium in PATH")
    return found


def seen(chromium: str, page: Path, *, width: int, folder: Path) -> dict[str, Any]:
    """What the probe in the page found out."""
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={folder / 'browser'}",
            f"--window-size={width},1000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    found: dict[str, Any] = json.loads(title)
    return found


def test_charts_are_visible(chromium: str, tmp_path: Path) -> None:
    """Each has its size, its lines run across it in colours of their own, and nothing overflows."""
    report(EQUAL).write(tmp_path)
    page = tmp_path / "probed.html"
    page.write_text((tmp_path / "report.html").read_text().replace("</body>", f"{PROBE}</body>"))
    found = seen(chromium, page, width=1200, folder=tmp_path)
    assert len(found["charts"]) == 6
    for chart in found["charts"]:
        assert chart["width"] > 450
        assert chart["height"] > 200
        # In units of the drawing, whose frame is 560 wide; a proxy may cover half the time.
        assert all(line["length"] > 200 for line in chart["lines"])
        assert {line["fill"] for line in chart["lines"]} == {"none"}
        colours = [line["colour"] for line in chart["lines"]]
        assert len(set(colours)) == len(colours) > 0
        assert "none" not in colours
    assert found["wide"] <= found["inner"]
