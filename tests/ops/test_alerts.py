"""The alert rules: complete, and proven by promtool with cases that fire and that stay silent."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.dashboards import ROOT
from tests.support.prometheus import JOB

FOLDER = ROOT / "ops/prometheus"
RULES = FOLDER / "alerts.yml"
CASES = FOLDER / "alerts_test.yml"
SEVERITIES = {"critical", "warning", "info"}


def alerts() -> list[dict[str, Any]]:
    """The alert rules; several may share a name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def expectations() -> list[dict[str, Any]]:
    """What promtool is to find, in all cases."""
    cases = yaml.safe_load(CASES.read_text())["tests"]
    return [expected for case in cases for expected in case["alert_rule_test"]]


def named(alert: dict[str, Any]) -> str:
    """A rule's name in the output of a test."""
    return "-".join([alert["alert"], *alert["labels"].values()])


@pytest.mark.parametrize("command, file", [("check", RULES), ("test", CASES)])
def test_promtool_agrees(command: str, file: Path, need: Callable[[str], str]) -> None:
    """The rules are valid; they fire and stay silent as told."""
    arguments = [need("promtool"), command, "rules", str(file)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", alerts(), ids=named)
def test_alert_has_a_case_that_fires(alert: dict[str, Any]) -> None:
    fired = [
        expected["exp_labels"]
        for found in expectations()
        if found["alertname"] == alert["alert"]
        for expected in found["exp_alerts"]
    ]
    assert any(alert["labels"].items() <= labels.items() for labels in fired)


def test_every_alert_has_a_case_that_stays_silent() -> None:
    silent = Counter(found["alertname"] for found in expectations() if not found["exp_alerts"])
    assert silent >= Counter(alert["alert"] for alert in alerts())


@pytest.mark.parametrize("alert", alerts(), ids=named)
def test_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["for"]
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert "$" not in annotations["summary"]
    assert re.search(r"\$(?:value|labels)", annotations["description"])
    page, _, anchor = annotations["runbook_url"].partition("#")
    assert anchor == alert["alert"].lower()
    headings = re.findall(r"^#+ +(.+?) *$", (ROOT / page).read_text(), re.MULTILINE)
    assert alert["alert"] in headings, f"{page} does not say what to do"


def test_rules_know_the_scrape_job_by_its_name() -> None:
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert [job["job_name"] for job in scraped["scrape_configs"]] == [JOB]
    named_jobs = re.findall(r'job="([^"]*)"', " ".join(alert["expr"] for alert in alerts()))
    assert set(named_jobs) == {JOB}
    assert scraped["rule_files"] == [RULES.name]
