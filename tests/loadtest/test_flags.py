"""Flags: what cannot be used is refused with exit code 2 and a sentence that names it."""

import argparse
import shlex
from pathlib import Path
from typing import Any

import pytest

from loadtest.flags import add_flags
from loadtest.plan import BadPlan, Plan, Thresholds
from service.__main__ import main


def flags(text: str = "") -> dict[str, Any]:
    """The flags of a command line."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return vars(parser.parse_args(shlex.split(text)))


def plan(text: str = "") -> Plan:
    """The plan that a command line makes."""
    return Plan.load(flags(text))


def nothing(arms: int, *, noise: float) -> None:
    """No environment."""


@pytest.mark.parametrize(
    "text, said",
    [
        ("--rate 0", "--rate: must be above 0"),
        ("--rate fast", "--rate: 'fast' is no number from 0 on"),
        ("--rate nan", "--rate: 'nan' is no number"),
        ("--rate 5 --clients 3", "--clients: not allowed with argument --rate"),
        ("--trials 5 --seconds 3", "--seconds: not allowed with argument --trials"),
        ("--clients 2.5", "--clients: '2.5' is no whole number from 1 on"),
        ("--tenants 0", "--tenants: '0' is no whole number from 1 on"),
        ("--lost 1.5", "--lost: '1.5' is no share: give a number from 0 to 1"),
        ("--max-error-share -1", "--max-error-share: '-1' is no number from 0 on"),
        ("--url localhost:8000", "'localhost:8000' is no address such as http://127.0.0.1:8000"),
        ("--url http://127.0.0.1:abc", "is no address such as"),
        ("--url http://[::1", "is no address such as"),
        ("--set neighbours", "'neighbours' is not of the form NAME=VALUE"),
        ("--delay gamma:1", "a delay is SECONDS, exponential:MEAN"),
        ("--environment maze", "there is no environment 'maze': use zigzag, types"),
        ("--environment no_such_module:f", "'no_such_module:f' cannot be loaded: No module"),
        ("--environment json:nope", "has no attribute 'nope'"),
        ("--environment json:dumps", "'json:dumps' cannot be called with (arms, noise=…)"),
        (f"--environment {__name__}:nothing", "returned no Environment, but None"),
        ("--clients 2 --processes 3", "2 clients cannot be shared by 3 processes"),
        ("--rate 9 --trials 2 --processes 3", "2 trials cannot be shared by 3 processes"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is sent."""
    with pytest.raises(SystemExit) as ended:
        main(["loadtest", *shlex.split(text)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_plan_without_flags() -> None:
    """Half a minute of zigzag, eight clients, under a name that nobody has."""
    made = plan()
    assert (made.rate, made.clients, made.seconds, made.trials) == (None, 8, 30.0, None)
    assert made.configuration == {"arms": 20, "horizon": 15_000, "noise": 0.05}
    assert made.thresholds == Thresholds()
    assert made.name != plan().name
    assert made.report is None


def test_flags_reach_the_plan() -> None:
    """Names, thresholds and the tenants' parameters too."""
    made = plan(
        "--rate 50 --trials 1000 --tenants 4 --arms 7 --noise 0.1 --name shop --preset paper "
        "--set neighbours=4 --set sampling=sequential --max-p99-ms 80 --min-reward-share 0.5 "
        "--report out --url http://host:81/base/"
    )
    assert made.tenant_names() == ["shop-1", "shop-2", "shop-3", "shop-4"]
    assert made.configuration == {
        "arms": 7,
        "horizon": 250,
        "noise": 0.1,
        "preset": "paper",
        "neighbours": 4,
        "sampling": "sequential",
    }
    assert made.thresholds == Thresholds(max_p99_ms=80.0, min_reward_share=0.5)
    assert (made.expected_seconds, made.report) == (20.0, Path("out"))
    assert made.url == "http://host:81/base"


def test_a_test_without_end_starts_over_under_the_same_name() -> None:
    """So that what a killed one left is deleted by the next."""
    made = plan("--rate 5 --forever")
    assert (made.name, made.trials, made.seconds) == ("loadtest", 10_000, None)


@pytest.mark.parametrize("name", ["zigzag", "types", "continuum", "bernoulli"])
@pytest.mark.parametrize("arms", [1, 20])
def test_every_environment_can_be_had(name: str, arms: int) -> None:
    """With any number of arms."""
    environment = plan(f"--environment {name} --arms {arms}").environment
    assert environment.arms == arms
    assert environment.bernoulli == (name == "bernoulli")


def test_an_environment_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the working directory, where nothing has to be installed."""
    source = "from loadtest.environments import zigzag\ndef mine(arms, *, noise):\n"
    (tmp_path / "own_environment.py").write_text(f"{source}    return zigzag(arms, noise=0.7)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    assert plan("--environment own_environment:mine").environment.noise == 0.7


def test_processes_share_all_there_is() -> None:
    """Trials, clients and rate add up; seeds differ."""
    made = plan("--trials 10 --clients 5 --processes 3")
    assert [made.trials_of(process) for process in range(3)] == [4, 3, 3]
    assert [made.clients_of(process) for process in range(3)] == [2, 2, 1]
    open_loop = plan("--rate 30 --processes 3")
    traffics = [open_loop.traffic_of(process) for process in range(3)]
    assert [traffic.rate for traffic in traffics] == [10.0] * 3
    assert len({next(traffic.trials()).context for traffic in traffics}) == 3


def test_a_plan_cannot_be_made_of_bad_flags_elsewhere() -> None:
    """It raises what the command turns into exit code 2."""
    with pytest.raises(BadPlan, match="there is no environment"):
        Plan.load(flags("--environment maze"))
