"""What the tests of the operator's files share: where they are, and what has to be installed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    """docker-compose.yml as it is written, variables unresolved."""
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return parsed


@pytest.fixture(scope="session")
def installed_path() -> str:
    """PATH as it was before a test narrowed it."""
    return os.environ["PATH"]


@pytest.fixture(scope="session")
def need(installed_path: str) -> Callable[[str], str]:
    """Where a program is; without it the test is skipped, in CI it fails."""

    def where(program: str) -> str:
        found = shutil.which(program, path=installed_path)
        if found is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {program} in PATH")
        assert found is not None
        return found

    return where
