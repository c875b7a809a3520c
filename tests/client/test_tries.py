"""How long is waited between tries, which no server can show."""

from hypothesis import given
from hypothesis import strategies as st

from service.client import Retry


@given(failures=st.integers(1, 2000), asked=st.floats(0, 100))
def test_waits_double_up_to_the_longest_and_never_undercut_what_was_asked(
    failures: int, asked: float
) -> None:
    """Anywhere from what the service asked for to the bound above it."""
    retry = Retry(first_wait_seconds=0.1, longest_wait_seconds=5.0)
    wait = retry.wait_seconds(failures, at_least=asked)
    assert asked <= wait <= asked + (0.1 * 2 ** (failures - 1) if failures < 7 else 5.0)


def test_waits_are_spread_over_the_whole_range() -> None:
    """Clients that failed together come back apart: all of a thousand, also right away."""
    waits = [Retry(first_wait_seconds=1.0).wait_seconds(1, at_least=0.0) for _ in range(1000)]
    assert len(set(waits)) == 1000
    assert min(waits) < 0.05
    assert max(waits) > 0.95
