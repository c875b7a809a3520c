"""`zooming evaluate`: logs as the service writes them, what is left out, warnings, bad lines."""

import io
import json
import math
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest.environments import Environment, bernoulli, zigzag
from service.__main__ import main
from service.algorithm import AdaptiveConfig, AdaptiveLearner
from service.decision_log import DecisionLog
from service.errors import BadLog
from service.evaluate import report_on

ENVIRONMENT = bernoulli(zigzag(4, noise=0.1))


def selected(number: int, *, arm: str, propensity: float = 0.5, **more: Any) -> dict[str, Any]:
    """The line of a decision when it is made."""
    return {
        **{"event": "selected", "at": "2026-01-01T00:00:00Z", "decision_id": f"d{number}"},
        **{"context": 0.5, "mapped_context": 0.5, "arm": arm, "ball": 1, "phase": "active"},
        **{"propensity": propensity, "holdout": False, **more},
    }


def closed(
    number: int, *, event: str, arm: str, reward: float | None, propensity: float = 0.5, **more: Any
) -> dict[str, Any]:
    """Its line when it is closed."""
    line = selected(number, arm=arm, propensity=propensity, event=event, reward=reward, **more)
    del line["ball"], line["phase"]
    return line


def both(number: int, *, arm: str, reward: float, propensity: float = 0.5) -> list[dict[str, Any]]:
    """A decision and its reward."""
    about: dict[str, Any] = {"arm": arm, "propensity": propensity}
    return [selected(number, **about), closed(number, event="rewarded", reward=reward, **about)]


def lines(events: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """As the service writes them, with the ids of a stream."""
    for number, event in enumerate(events, 1):
        yield json.dumps(
            {"id": f"{1_700_000_000_000 + number // 3}-{number % 3}", **event}
        ).encode()


def report(events: Iterable[dict[str, Any]], arms: Sequence[str] = ()) -> dict[str, Any]:
    """What the command reports."""
    return report_on(DecisionLog.read(lines(events)), arms=arms)


def play(
    environment: Environment, *, seed: int, decisions: int, floor: float, holdout: float
) -> Iterator[dict[str, Any]]:
    """A log of `adaptive` at work, with an exploration floor and a holdout of random arms."""
    rng = np.random.default_rng(seed)
    learner = AdaptiveLearner(AdaptiveConfig.resolve(arms=environment.arms))
    random_share = holdout + (1 - holdout) * floor
    for number in range(decisions):
        x = float(rng.random())
        decision = learner.select(x)
        held, explored = rng.random(2)
        arm = decision.arm
        if held < holdout or explored < floor:
            arm = int(rng.integers(environment.arms))
        propensity = random_share / environment.arms + (1 - random_share) * (arm == decision.arm)
        about: dict[str, Any] = {"arm": str(arm), "propensity": propensity, "context": x}
        about["holdout"] = bool(held < holdout)
        yield selected(number, **about)
        reward = environment.reward(rng, x, arm)
        # The learner knows of its own choices only.
        if arm == decision.arm:
            learner.reward(decision, reward)
        yield closed(number, event="rewarded", reward=reward, **about)


def test_logs_of_a_learner_at_work_tell_what_each_arm_is_worth() -> None:
    """Propensities depend on all that was learned before; the mean of 40 logs is still the truth.

    Within 3.5 standard errors for IPS; SNIPS has a bias of the order of 1/effective on top.
    """
    logs, decisions = 40, 400
    found = [
        report(play(ENVIRONMENT, seed=seed, decisions=decisions, floor=0.2, holdout=0.1))
        for seed in range(logs)
    ]
    assert 0 < found[0]["decisions"]["holdout"] < decisions / 5
    truth = ENVIRONMENT.means((np.arange(10_000) + 0.5) / 10_000).mean(axis=0)
    for arm in range(ENVIRONMENT.arms):
        rows = [policy(one, str(arm)) for one in found]
        effective = float(np.mean([row["effective"] for row in rows]))
        for kind, bias in (("ips", 0.0), ("snips", 0.5 / effective)):
            means = np.array([row[kind]["mean"] for row in rows])
            standard_error = float(means.std(ddof=1)) / math.sqrt(logs)
            assert abs(means.mean() - truth[arm]) < 3.5 * standard_error + bias
    # The learner does better than any arm alone, and the plain mean says so.
    earned = np.mean([one["logged"]["mean"] for one in found])
    assert earned > truth.max()


def policy(found: dict[str, Any], arm: str) -> dict[str, Any]:
    """The arm's row."""
    row: dict[str, Any] = next(row for row in found["policies"] if row["arm"] == arm)
    return row


def test_what_has_no_reward_is_left_out_and_counted() -> None:
    events = [
        {"event": "arm_added", "at": "2026-01-01T00:00:00Z", "arm": "red"},
        *both(1, arm="red", reward=1.0),
        *both(2, arm="blue", reward=0.0),
        selected(3, arm="red"),
        closed(3, event="defaulted", arm="red", reward=0.5, holdout=True),
        selected(4, arm="red"),
        closed(4, event="expired", arm="red", reward=None),
        selected(5, arm="red"),
        closed(5, event="censored", arm="red", reward=None),
        selected(6, arm="red"),
        selected(7, arm="red"),
        {"event": "one_of_a_later_version", "anything": [1]},
    ]
    found = report(events)
    assert found["decisions"] == {
        **{"used": 3, "rewarded": 2, "defaulted": 1, "holdout": 1, "certain": 0},
        **{"open": 2, "expired": 1, "censored": 1, "ranked": 0, "incomplete": 0},
    }
    assert found["logged"]["mean"] == 0.5
    assert policy(found, "red")["played"] == 2
    assert policy(found, "red")["ips"]["mean"] == pytest.approx((2 * 1.0 + 2 * 0.5) / 3)


def test_a_log_whose_beginning_was_trimmed_away() -> None:
    """The line of the reward says it all."""
    found = report(
        [closed(1, event="rewarded", arm="red", reward=1.0), *both(2, arm="red", reward=1)]
    )
    assert found["decisions"]["used"] == 2


def test_a_decision_that_comes_in_parts() -> None:
    """What the second line lacks is in the first; where that is missing too, it is left out."""
    part = {"event": "rewarded", "reward": 3.0}
    found = report(
        [
            selected(1, arm="red", propensity=0.25, holdout=True),
            selected(2, arm="blue", propensity=0.5),
            {**part, "decision_id": "d2"},
            {**part, "decision_id": "d1"},
            {**part, "decision_id": "d0"},
        ]
    )
    assert found["decisions"]["used"] == 2
    assert found["decisions"]["incomplete"] == 1
    assert found["decisions"]["holdout"] == 1
    assert policy(found, "red")["ips"]["mean"] == pytest.approx(4 * 3.0 / 2)


def test_pages_of_a_log_that_overlap_count_once() -> None:
    page = list(lines([*both(1, arm="red", reward=1.0), *both(2, arm="blue", reward=0.0)]))
    found = report_on(DecisionLog.read([*page[:3], *page[1:]]))
    assert found["decisions"]["used"] == 2
    assert found["decisions"]["open"] == 0
    assert any("2 lines were left out" in text for text in found["warnings"])


def test_of_a_ranking_the_first_arm_counts() -> None:
    below = [
        selected(1, arm="blue", decision_id="d1.2"),
        closed(1, event="rewarded", arm="blue", reward=5.0, decision_id="d1.2"),
    ]
    found = report([*both(1, arm="red", reward=1.0), *below])
    assert [row["arm"] for row in found["policies"]] == ["red"]
    assert found["decisions"]["ranked"] == 1


def test_a_policy_that_left_no_choice_is_not_identifiable() -> None:
    """And it is said what to do."""
    found = report(
        event
        for number in range(400)
        for event in both(number, arm="red" if number % 2 else "blue", reward=1.0, propensity=1.0)
    )
    assert found["decisions"]["certain"] == 400
    assert "In 400 of 400 decisions the propensity is 1" in found["warnings"][0]
    assert "`exploration_floor` or `holdout`" in found["warnings"][0]
    # Half of the decisions had no other choice than the other arm: the weights show it too.
    assert policy(found, "red")["warnings"] == ["weights_off"]
    assert policy(found, "red")["mean_weight"]["mean"] == 0.5


def test_small_samples_and_arms_never_played_are_pointed_out() -> None:
    events = [
        event
        for number in range(300)
        for event in both(
            number,
            arm="red" if number % 10 else "blue",
            reward=1.0,
            propensity=0.9 if number % 10 else 0.1,
        )
    ]
    found = report(events, arms=["blue", "red", "green", "red"])
    assert [row["arm"] for row in found["policies"]] == ["blue", "red", "green"]
    assert policy(found, "red")["warnings"] == []
    assert policy(found, "blue")["warnings"] == ["small_sample"]
    assert policy(found, "green")["warnings"] == ["never_played"]
    assert policy(found, "green")["snips"] == {"mean": None, "low": None, "high": None}
    never, small = found["warnings"]
    assert never.startswith("always green: never played")
    assert small.startswith("always blue: the effective sample size is below 100")
    assert all("exploration_floor" in text for text in found["warnings"])


def test_an_arm_that_came_late_shows_in_its_weights() -> None:
    """IPS is half the truth then; SNIPS is not."""
    rng = np.random.default_rng(3)
    events: list[dict[str, Any]] = []
    for number in range(2000):
        arms = ["red", "blue"] if number < 1000 else ["red", "blue", "late"]
        arm = str(rng.choice(arms))
        events += both(number, arm=arm, reward=1.0, propensity=1 / len(arms))
    late = policy(report(events), "late")
    assert late["warnings"] == ["weights_off"]
    assert late["ips"]["mean"] == pytest.approx(0.5, abs=0.05)
    assert late["snips"]["mean"] == 1.0


def test_memory_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred decisions are open at a time; three times the lines take no more."""
    monkeypatch.setattr("service.decision_log._BATCH", 500)

    def events(decisions: int) -> Iterator[dict[str, Any]]:
        for number in range(decisions + 100):
            if number < decisions:
                yield selected(number, arm=str(number % 7))
            if number >= 100:
                yield closed(number - 100, event="rewarded", arm=str(number % 7), reward=1.0)

    def peak(decisions: int) -> int:
        tracemalloc.start()
        try:
            DecisionLog.read(lines(events(decisions)))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(3000) < 1.2 * peak(1000)


BAD = {
    "no JSON": (b"{", "is not JSON"),
    "cut off": (b'{"event": "selec', "may be cut off"),
    "no UTF-8": (b'{"event": "\xff"}', "is not JSON"),
    "no object": (b"[1]", "is not a JSON object"),
    "NaN": (b'{"event": NaN}', "NaN is no number"),
    "nested": (b"[" * 100_000, "is not JSON"),
    "no event": (b"{}", "has no text for 'event'"),
    "event of another type": (b'{"event": 3}', "has no text for 'event'"),
    "no decision": (b'{"event": "selected"}', "has no text for 'decision_id'"),
}


@pytest.mark.parametrize("text, said", BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_by_its_number(text: bytes, said: str) -> None:
    """Empty lines count."""
    with pytest.raises(BadLog, match=r"^Line 4 of the log ") as error:
        DecisionLog.read([*lines(both(1, arm="red", reward=1.0)), b"\n", text])
    assert said in str(error.value)


@pytest.mark.parametrize(
    "value", ["0.0", "-0.5", "1.01", "1e400", "true", '"0.5"', "1" + "0" * 400]
)
@pytest.mark.parametrize("event", ["selected", "rewarded"])
def test_a_propensity_must_be_above_0_and_1_at_the_most(event: str, value: str) -> None:
    about = f'"event": "{event}", "decision_id": "d", "arm": "a", "reward": 1'
    text = f'{{{about}, "propensity": {value}}}'
    with pytest.raises(BadLog, match=r"Line 1 of the log has .*'propensity'"):
        DecisionLog.read([text.encode()])


@pytest.mark.parametrize("value", ["null", '"1"', "true", "1e300", "-1e400"])
def test_a_reward_must_be_a_number(value: str) -> None:
    about = '"event": "rewarded", "decision_id": "d", "arm": "a", "propensity": 1'
    text = f'{{{about}, "reward": {value}}}'
    with pytest.raises(BadLog, match=r"Line 1 of the log has .*'reward'"):
        DecisionLog.read([text.encode()])


# -- the command


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in a file."""
    path = tmp_path / "log.ndjson"
    events = play(ENVIRONMENT, seed=1, decisions=2000, floor=0.3, holdout=0.0)
    path.write_bytes(b"".join(line + b"\n" for line in lines(events)))
    return path


def test_the_command_prints_a_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(log)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["2,000 decisions with a reward", "left out: none"]
    assert printed[2].startswith("the policy that decided earned 0.")
    header, *rows = printed[4:9]
    assert header.split() == ["always", "SNIPS", "IPS", "effective", "played"]
    snips = [float(row.split()[1]) for row in rows]
    assert snips == sorted(snips, reverse=True)


def test_the_command_prints_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(log), "--json", "--arm", "2", "--arm", "none"]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    with log.open("rb") as file:
        assert printed == report_on(DecisionLog.read(file), arms=["2", "none"])
    assert [row["arm"] for row in printed["policies"]] == ["2", "none"]


def test_the_command_reads_the_standard_input(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["evaluate", str(log)])
    from_file = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
    assert main(["evaluate", "-"]) == 0
    assert capsys.readouterr().out == from_file


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "cannot be read: No such file"),
        (b"", "No decision in this log has a reward"),
        (b'{"event": "arm_added", "arm": "red"}\n', "No decision in this log has a reward"),
        (b"\nnothing\n", "Line 2 of the log is not JSON"),
    ],
)
def test_a_log_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)
    assert main(["evaluate", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
