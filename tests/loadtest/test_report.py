"""A report says what was recorded, in three forms, and its verdicts decide."""

import argparse
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from loadtest.counts import Count
from loadtest.flags import add_flags
from loadtest.plan import Plan, Thresholds
from loadtest.record import Record
from loadtest.report import Report
from loadtest.tally import DUE, LAG, REWARD, SELECT, SENT, Fate, Learning, Tally
from loadtest.target import Metrics

EQUAL = Count(what="trials", tenant="<t>-1", least=400, most=400, server=400)
DIFFERENT = Count(what="rewards applied", tenant="<t>-1", least=380, most=381, server=382)


def plan(**thresholds: float) -> Plan:
    """A plan of 4 seconds."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    flags = vars(parser.parse_args(["--rate", "100", "--seconds", "4", "--name", "<t>"]))
    return replace(Plan.load(flags), thresholds=Thresholds(**thresholds))


def record() -> Record:
    """Four seconds: 400 selects, half the way from 0.5 to 1.0 in the last quarter, none before."""
    made = Record(start=1000.0)
    for slot in range(16):
        earned = 18.75 if slot >= 12 else 12.5
        latencies_us = [2000 + slot] * 24 + [90_000]
        made.add(
            Tally(
                0,
                slot=slot,
                answered_at=1000.0 + (slot + 1) / 4,
                fates=Counter({Fate(0, SELECT, "200"): 25, Fate(0, REWARD, "applied"): 23}),
                latencies_us={
                    (SELECT, DUE): latencies_us,
                    (SELECT, SENT): [1000] * 25,
                    (SELECT, LAG): [500] * 25,
                },
                learning=Learning(25, earned, 25.0, 12.5),
            )
        )
    made.fates[Fate(0, REWARD, "503", certain=False)] = 8
    for at in (1001.0, 1003.0):
        made.samples.append(
            Metrics(at=at, regret_upper={"<t>-1": 9.0}, regret_estimate={"<t>-1": 3.0})
        )
    return made


def report(*counts: Count, **thresholds: float) -> Report:
    """The report on that record."""
    return Report.of(plan(**thresholds), record=record(), counts=counts or [EQUAL])


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.addresses += [str(v) for name, v in attrs if name in ("src", "href", "srcset")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_numbers_are_those_of_the_record() -> None:
    """Rate, latency, errors, learning."""
    numbers = report().numbers
    assert numbers["passed"]
    assert numbers["traffic"]["selects_per_second"] == pytest.approx(100.0)
    assert numbers["traffic"]["client_lag_p99_ms"] == pytest.approx(0.5, rel=1e-2)
    assert numbers["latency_ms"]["select"]["due"]["p50"] == pytest.approx(2.0, rel=1e-2)
    assert numbers["latency_ms"]["select"]["due"]["p99"] == pytest.approx(90.0, rel=1e-3)
    assert numbers["latency_ms"]["select"]["sent"]["max"] == pytest.approx(1.0, rel=1e-3)
    assert numbers["latency_ms"]["reward"]["due"]["count"] == 0
    assert numbers["errors"] == {"reward": {"503": 8}}
    learning = numbers["learning"]
    assert learning["share_of_the_way_last_quarter"] == pytest.approx(0.5)
    assert learning["true_regret"] == pytest.approx(400 - 12 * 12.5 - 4 * 18.75)
    assert (learning["regret_upper"], learning["regret_estimate"]) == (9.0, 3.0)


def test_the_course_has_a_point_for_each_slice_and_the_curve_a_hundred() -> None:
    """All of the same length, ready to be drawn."""
    numbers = report().numbers
    assert {len(values) for values in numbers["course"].values()} == {16}
    assert numbers["course"]["rate"] == [100.0] * 16
    assert numbers["proxies"]["seconds"] == [1.0, 3.0]
    assert {len(values) for values in numbers["curve"].values()} == {101}
    assert numbers["curve"]["reward"][0] == pytest.approx(0.5)
    assert numbers["curve"]["reward"][-1] == pytest.approx(0.75)
    assert numbers["distribution_ms"]["percentile"][-1] == pytest.approx(99.75)


@pytest.mark.parametrize(
    "threshold, kept, missed",
    [
        ("max_p99_ms", 91.0, 89.0),
        ("max_error_share", 0.011, 0.010),
        ("min_rate", 99.0, 101.0),
        ("min_reward_share", 0.49, 0.51),
    ],
)
def test_a_threshold_decides(threshold: str, kept: float, missed: float) -> None:
    """Either side of what was seen."""
    assert report(**{threshold: kept}).passed
    failed = report(**{threshold: missed})
    assert not failed.passed
    assert "MISSED" in failed.summary()
    assert "FAILED" in failed.summary()


def test_counts_decide() -> None:
    """One that differs fails the test and is named; unless it is not to be judged."""
    failed = report(EQUAL, DIFFERENT)
    assert not failed.passed
    assert re.search(
        r"rewards applied of <t>-1 *\| 380 to 381 \| 382 *\| DIFFERENT", failed.summary()
    )
    assert report(EQUAL, replace(DIFFERENT, judged=False)).passed


def test_without_counts_nothing_is_confirmed() -> None:
    """A service that died cannot be asked."""
    unknown = Report.of(plan(), record=record(), counts=[])
    assert not unknown.passed
    assert "could not be asked for its counts" in unknown.summary()


def test_a_service_that_answered_nothing_does_not_pass() -> None:
    """Whatever the thresholds; and the report can be written all the same."""
    silent = Record(fates=Counter({Fate(0, SELECT, "connect"): 5}))
    none = replace(EQUAL, least=0, most=0, server=0)
    found = Report.of(plan(max_p99_ms=10.0), record=silent, counts=[none])
    assert not found.passed
    assert "| selects answered, at least | 1     | 0       | MISSED" in found.summary()
    json.dumps(found.numbers, allow_nan=False)


def test_files_agree_and_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """All numbers in JSON, all tables in Markdown and on the page, six charts on the page."""
    found = report(EQUAL, DIFFERENT, max_p99_ms=50.0)
    found.write(tmp_path / "new" / "folder")
    files = {path.name: path.read_text() for path in (tmp_path / "new" / "folder").iterdir()}
    assert sorted(files) == ["report.html", "report.json", "report.md"]
    numbers: dict[str, Any] = json.loads(files["report.json"])
    assert numbers == found.numbers
    page = Page(files["report.html"])
    assert page.addresses == []
    assert not re.search(r"@import|url\(|<script|<link", files["report.html"])
    assert page.tags["svg"] == 6
    assert page.tags["polyline"] == 3 + 3 + 2 + 2 + 1 + 1
    for text in (files["report.md"], page.text):
        assert "FAILED" in text
        assert "rewards applied of <t>-1" in text
        for title in ("Latency", "Traffic", "Errors", "Learning", "Counts", "Thresholds", "Set-up"):
            assert title in text
