"""The page of results: the place that a command has on it, between two marks."""

import re
from dataclasses import dataclass
from pathlib import Path

from service.errors import BadSetting


@dataclass(frozen=True)
class Place:
    """Where `zooming <command>` puts its tables in `RESULTS.md`."""

    docs: Path
    command: str

    @property
    def page(self) -> Path:
        """The file."""
        return self.docs / "RESULTS.md"

    @property
    def pictures(self) -> Path:
        """The folder of the figures that the page shows."""
        return self.docs / "simulation"

    def check(self) -> None:
        """Raises unless the page has the place: better before hours of play than after."""
        if not self._marked().search(self.page.read_text(encoding="utf-8")):
            marks = " and ".join(self._marks())
            raise BadSetting(f"{self.page} has no place for the tables: put {marks} there.")

    def fill(self, content: str) -> None:
        """Puts the content there, in place of what was."""
        begin, end = self._marks()
        text = self.page.read_text(encoding="utf-8")
        new = self._marked().sub(lambda _: f"{begin}\n{content}\n{end}", text)
        self.page.write_text(new, encoding="utf-8")

    def _marks(self) -> tuple[str, str]:
        return f"<!-- zooming {self.command}: begin -->", f"<!-- zooming {self.command}: end -->"

    def _marked(self) -> re.Pattern[str]:
        return re.compile("{}.*{}".format(*self._marks()), re.DOTALL)
