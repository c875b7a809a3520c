"""The live display: a block in place on a terminal, lines elsewhere."""

import io

import pytest

from loadtest.display import Display
from tests.loadtest.test_report import plan, record
from tests.support.servers import wait_for


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self) -> bool:
        return True


def blocks(terminal: Terminal, *, count: int) -> list[str]:
    """What the display shows on its first refreshes."""
    display = Display(plan(), out=terminal)

    def shown() -> list[str]:
        display.show(record())
        return terminal.getvalue().split("\x1b[6A")

    wait_for(lambda: len(shown()) >= count and shown()[-1], what=f"{count} refreshes")
    return shown()


def test_a_terminal_gets_a_block_that_is_rewritten() -> None:
    """The cursor goes up as many lines as the block has."""
    first, second = blocks(Terminal(), count=2)
    for block in (first, second):
        assert block.count("\n") == 6
        assert "p50 2.0" in block
        assert "errors    reward 503 8" in block
        assert "a random arm 0.500, the optimum 1.000" in block
        assert "regret    175.0 in 400 trials" in block


def test_no_line_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow terminal loses the ends of lines."""
    monkeypatch.setenv("COLUMNS", "30")
    (block,) = blocks(Terminal(), count=1)
    assert max(len(line.removesuffix("\x1b[K")) for line in block.splitlines()) == 29


def test_elsewhere_it_says_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without codes for terminals."""
    monkeypatch.setattr("loadtest.display.LINE_SECONDS", 0.0)
    out = io.StringIO()
    Display(plan(), out=out).show(record())
    (line,) = out.getvalue().splitlines()
    assert "p99 90" in line
    assert "8 errors" in line
    assert "\x1b" not in line
