"""The comparison of counts: equal passes, unequal does not, and doubt is a range."""

from collections import Counter
from collections.abc import Sequence

import pytest

from loadtest.counts import Count, request_counts, tenant_counts, totals
from loadtest.record import Record
from loadtest.tally import CONNECT, RESET, REWARD, SELECT, TIMEOUT, Fate
from loadtest.target import OUTCOMES, Metrics, TenantCounts

METRICS = """\
# HELP zooming_trials_total Trials.
# TYPE zooming_trials_total counter
zooming_trials_total{tenant="a",phase="active"} 3.0
zooming_trials_total{tenant="a",phase="flagged"} 4.0
# TYPE zooming_rewards_total counter
zooming_rewards_total{tenant="a",outcome="applied"} 5.0
zooming_rewards_total{tenant="a",outcome="late"} 1.0
# TYPE zooming_regret_upper gauge
zooming_regret_upper{tenant="a"} 2.5
# TYPE zooming_regret_estimate gauge
zooming_regret_estimate{tenant="a"} -0.5
# TYPE zooming_http_requests_total counter
zooming_http_requests_total{route="/select",method="POST",status="200"} 7.0
zooming_http_requests_total{route="/reward",method="POST",status="410"} 1.0
"""


def counts(
    fates: dict[Fate, int],
    *,
    trials: int = 0,
    twice_applied: int = 0,
    **rewards: int,
) -> dict[str, Count]:
    """The comparison for one tenant, by what is counted."""
    record = Record(fates=Counter(fates), twice_applied=twice_applied)
    server = TenantCounts(trials, dict.fromkeys(OUTCOMES, 0) | rewards)
    return {count.what: count for count in tenant_counts(record, names=["a"], server={"a": server})}


def different(found: dict[str, Count]) -> list[str]:
    """What is not equal."""
    return [count.what for count in found.values() if not count.equal]


def test_what_the_client_saw_is_what_the_service_must_have_counted() -> None:
    """Each answer has its count."""
    fates = {
        Fate(0, SELECT, "200"): 9,
        Fate(0, SELECT, "409"): 1,
        Fate(0, REWARD, "applied"): 5,
        Fate(0, REWARD, "duplicate"): 2,
        Fate(0, REWARD, "409"): 3,
        Fate(0, REWARD, "410"): 4,
        Fate(0, REWARD, "404"): 6,
    }
    right = {"applied": 5, "duplicate": 2, "conflict": 3, "late": 4, "unknown": 6}
    assert different(counts(fates, trials=9, **right)) == []
    for outcome in OUTCOMES:
        wrong = right | {outcome: right[outcome] + 1}
        assert different(counts(fates, trials=9, **wrong)) == [f"rewards {outcome}"]
    for trials in (8, 10):
        assert different(counts(fates, trials=trials, **right)) == ["trials"]


@pytest.mark.parametrize("kind", [TIMEOUT, RESET, "503", "500"])
def test_a_request_of_unknown_fate_may_have_counted_or_not(kind: str) -> None:
    """But not more than once, and only as what it was."""
    fates = {Fate(0, SELECT, "200"): 5, Fate(0, SELECT, kind, certain=False): 2}
    assert [different(counts(fates, trials=trials)) for trials in (4, 5, 7, 8)] == [
        ["trials"],
        [],
        [],
        ["trials"],
    ]
    assert different(counts(fates, trials=5, applied=1)) == ["rewards applied"]


def test_a_request_that_was_never_sent_cannot_have_counted() -> None:
    """No connection, no doubt."""
    fates = {Fate(0, SELECT, "200"): 5, Fate(0, SELECT, CONNECT): 2}
    assert different(counts(fates, trials=6)) == ["trials"]


def test_a_reward_applied_twice_is_found_even_when_the_counts_agree() -> None:
    """A service that knows no duplicates would count as it answers."""
    fates = {Fate(0, SELECT, "200"): 1, Fate(0, REWARD, "applied"): 2}
    found = counts(fates, trials=1, applied=2, twice_applied=1)
    assert different(found) == ["rewards applied twice"]


def test_each_tenant_is_compared_by_itself() -> None:
    """Two errors that cancel out in the sum are still found, and named."""
    record = Record(fates=Counter({Fate(0, SELECT, "200"): 5, Fate(1, SELECT, "200"): 5}))
    none = dict.fromkeys(OUTCOMES, 0)
    server = {"a": TenantCounts(4, none), "b": TenantCounts(6, none)}
    shown = totals(tenant_counts(record, names=["a", "b"], server=server))
    assert [(c.tenant, c.least, c.server, c.equal) for c in shown if c.what == "trials"] == [
        ("", 10, 10, True),
        ("a", 5, 4, False),
        ("b", 5, 6, False),
    ]


def test_metrics_are_read_by_their_names() -> None:
    """Phases add up; a tenant that is not listed has no counts."""
    metrics = Metrics.parse(METRICS, at=1.0)
    found = metrics.counts("a")
    assert found is not None
    assert found.trials == 7
    assert found.rewards == dict.fromkeys(OUTCOMES, 0) | {"applied": 5, "late": 1}
    assert (metrics.regret_upper, metrics.regret_estimate) == ({"a": 2.5}, {"a": -0.5})
    assert metrics.counts("other") is None


BEFORE = Counter({("/select", "200"): 100, ("/metrics", "200"): 3})


class TestRequests:
    """HTTP requests, by what the service's metrics grew."""

    def compare(
        self, fates: dict[Fate, int], grown: dict[tuple[str, str], int], *, judged: bool = True
    ) -> Sequence[Count]:
        """The comparison."""
        return request_counts(
            Record(fates=Counter(fates)),
            before=Metrics(at=0.0, requests=BEFORE),
            after=Metrics(at=1.0, requests=BEFORE + Counter(grown)),
            judged=judged,
        )

    def test_are_compared_by_route_and_status(self) -> None:
        """Others' routes are none of our business."""
        fates = {
            Fate(0, SELECT, "200"): 4,
            Fate(1, SELECT, "200"): 1,
            Fate(0, REWARD, "applied"): 3,
            Fate(0, REWARD, "duplicate"): 2,
            Fate(0, SELECT, "503", certain=False): 1,
        }
        grown = {
            ("/select", "200"): 5,
            ("/select", "503"): 1,
            ("/reward", "200"): 5,
            ("/metrics", "200"): 8,
        }
        found = self.compare(fates, grown)
        assert [(count.what, count.least, count.most, count.server) for count in found] == [
            ("/reward answered 200", 5, 5, 5),
            ("/select answered 200", 5, 5, 5),
            ("/select answered 503", 1, 1, 1),
        ]
        assert all(count.equal for count in found)

    def test_that_only_one_side_knows_are_different(self) -> None:
        """Whichever side that is."""
        assert not self.compare({Fate(0, SELECT, "422"): 1}, {})[0].equal
        assert not self.compare({}, {("/select", "422"): 1})[0].equal

    def test_without_an_answer_may_be_in_any_status(self) -> None:
        """Up to their number."""
        fates = {Fate(0, SELECT, TIMEOUT, certain=False): 2}
        assert self.compare(fates, {("/select", "200"): 2})[0].equal
        assert not self.compare(fates, {("/select", "200"): 3})[0].equal

    def test_of_a_shared_service_are_shown_only(self) -> None:
        """They are marked as not judged."""
        (count,) = self.compare({}, {("/select", "200"): 1}, judged=False)
        assert not count.equal
        assert not count.judged
