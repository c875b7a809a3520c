"""The README knows every setting, route and field: what is missing there fails here."""

from dataclasses import fields
from pathlib import Path

import pytest

from service.api.schemas import TenantConfig
from service.app import create_app
from service.settings import PREFIX, Settings

README = (Path(__file__).parents[2] / "README.md").read_text()


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
