"""The README knows every setting, route, field and metric: what is missing there fails here."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from service.api.schemas import TenantConfig
from service.app import create_app
from service.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
METRICS = {
    name
    for file in ("metrics.py", "state_metrics.py")
    for name in re.findall(r'"(zooming_\w+)"', (ROOT / "service" / file).read_text())
}


@pytest.mark.parametrize("setting", [field.name for field in fields(Settings)])
def test_setting_is_in_the_readme(setting: str) -> None:
    """By the name of its variable."""
    assert f"`{PREFIX}{setting.upper()}`" in README


@pytest.mark.parametrize("field", list(TenantConfig.model_fields))
def test_field_of_a_tenants_configuration_is_in_the_readme(field: str) -> None:
    """By its name in the API."""
    assert f"`{field}`" in README


@pytest.mark.parametrize("route", create_app(Settings()).openapi()["paths"])
def test_route_is_in_the_readme(route: str) -> None:
    """By its path."""
    assert route in README


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_metric_is_in_the_readme(metric: str) -> None:
    """By its name; a counter there ends in `_total`."""
    assert re.search(rf"`{metric}(_total)?[`{{]", README)


def test_all_metrics_are_found() -> None:
    """The page has 25 families."""
    assert len(METRICS) == 25


@pytest.mark.parametrize("page", ["README.md", "docs/RESULTS.md", "docs/OPERATIONS.md"])
def test_every_file_that_a_page_links_to_is_there(page: str) -> None:
    """Pictures included."""
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert links
    for link in links:
        assert ((ROOT / page).parent / link).exists(), link
