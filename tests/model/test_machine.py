"""Any sequence of calls, against a plain model of the whole tenant, with the audits after each.

The engine runs in invented time on a real store, which is also restarted on the way. What a run has
seen is counted: an outcome that none of its sequences came to was not tested.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from service.embedded import PrivateStore
from tests.model.machine import DECK, TenantMachine
from tests.support.servers import require_store

BODIES: dict[str, dict[str, Any]] = {
    "adaptive": {"arms": 4},
    "learned": {
        "preset": "simulation",
        "arms": 4,
        "horizon": 1000,
        "noise": 0.05,
        "neighbours": 1,
        "buckets": 2,
        "flag_coefficient": 0.05,
        "patience": 2,
    },
    "none": {
        "preset": "simulation",
        "arms": 3,
        "horizon": 100,
        "noise": 0.1,
        "flag_coefficient": 0.05,
        "similarity": {"kind": "none"},
    },
}
EXAMPLES = 6
OUTCOMES = {
    *("selected, active", "none_eligible", "another context"),
    *("applied", "duplicate", "conflict", "late", "censored", "ignored", "unknown_decision"),
    *("defaulted", "expired", "censor: censored", "censor: conflict", "censor: late"),
    *("split", "added", "paused", "resumed", "retired"),
    *("flushed", "another worker", "restarted", "moved"),
}


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateStore]:
    """A store that may be restarted."""
    require_store()
    with PrivateStore(tmp_path_factory.mktemp("store"), appendfsync="everysec") as started:
        yield started


@pytest.mark.parametrize("preset", BODIES)
def test_any_sequence_of_calls(private: PrivateStore, preset: str) -> None:
    """Against the model, with all invariants after each step."""
    seen: Counter[str] = Counter()
    parts = {"private": private, "body": BODIES[preset], "seen": seen}
    run_state_machine_as_test(
        type("Machine", (TenantMachine,), parts),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=len(DECK),
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(dict(sorted(seen.items())))
    assert not OUTCOMES - set(seen)
    assert seen["applied"] > 10 * EXAMPLES
