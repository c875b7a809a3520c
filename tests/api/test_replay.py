"""`zooming replay`: a tenant that lives through a log once more ends up with the same partition."""

import json
import random
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from service.__main__ import main
from tests.api.calls import balls_of, call, censor, create, log_of, reward, select, state_of
from tests.support.engine import new_name
from tests.support.servers import Service, wait_for

SCALE = {"kind": "linear", "low": -10, "high": 10, "outside": "clamp"}
# Longer than a busy machine stands still: a window that ends while a client goes on makes its order
# another one.
WINDOW = {"reward_window_seconds": 2.0}
BUSY: dict[str, Any] = {
    "arms": ["a", "b", "c", "d"],
    "context_scale": SCALE,
    "reward_range": [-1, 1],
    "exploration_floor": 0.3,
    "split_wait_ms": 10_000,
}
PRESETS: dict[str, dict[str, Any]] = {
    "adaptive": {"horizon": None, "noise": "auto"},
    "simulation": {"neighbours": 1, "flag_coefficient": 0.05, "patience": 2},
}


class Life:
    """What a tenant goes through."""

    def __init__(self, service: Service, tenant: str) -> None:
        self.service, self.tenant = service, tenant
        self.chance = random.Random(0)

    def play(self, trials: int, **more: Any) -> None:
        """Selects, of which most are rewarded, some in another order, and some are censored."""
        late: list[str] = []
        for _ in range(trials):
            answer = select(self.service, self.tenant, self.chance.uniform(-11, 11), **more).json()
            late += [choice["decision_id"] for choice in answer.get("ranking", [answer])]
            while late and self.chance.random() < 0.7:
                decision_id = late.pop(self.chance.randrange(len(late)))
                if self.chance.random() < 0.15:
                    censor(self.service, self.tenant, decision_id)
                else:
                    reward(self.service, self.tenant, decision_id, self.chance.uniform(-1, 1))
        for decision_id in late:
            reward(self.service, self.tenant, decision_id, 0.5)

    def let_close(self, *contexts: float, default: float | None) -> None:
        """Decisions without a reward, until they are closed and what is due to be split is.

        Of several defaults at once one may come while another one's split is under way.
        """
        self.patch({"default_reward": default})
        ids = [select(self.service, self.tenant, x).json()["decision_id"] for x in contexts]

        def are_closed() -> bool:
            return all(state_of(self.service, self.tenant, one) != "open" for one in ids)

        def are_split() -> bool:
            return all(ball["fill"] != 1.0 for ball in balls_of(self.service, self.tenant))

        wait_for(are_closed, what="the end of the windows")
        wait_for(are_split, what="the split that a default made due")

    def patch(self, changes: dict[str, Any]) -> None:
        """Changes settings."""
        path = f"/tenants/{self.tenant}"
        assert call(self.service, "PATCH", path, changes).status_code == 200

    def arm(self, method: str, name: str, body: Any = None) -> None:
        """Changes an arm."""
        path = f"/tenants/{self.tenant}/arms/{name}"
        assert call(self.service, method, path, body).status_code in (200, 201, 204)


def live(service: Service, tenant: str) -> None:
    """Everything that there is in a log."""
    life = Life(service, tenant)
    life.play(20)
    life.patch({"holdout": 0.3})
    life.play(20)
    life.let_close(0, default=0.25)
    life.arm("PUT", "e/f ü")
    life.play(15, eligible=["a", "c", "e/f ü"])
    life.arm("PATCH", "b", {"paused": True})
    life.play(15, n=3)
    life.let_close(-5, 0, 5, default=None)
    life.arm("DELETE", "c")
    life.play(15)
    life.arm("PATCH", "b", {"paused": False})
    life.arm("PUT", "c")
    life.play(25)


def write_log(file: Path, events: Iterable[Any]) -> str:
    """A file with these lines."""
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(file)


@pytest.mark.parametrize("scale", ["same", "unit"])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_partition_is_the_same(
    service: Service,
    twin: Service,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    preset: str,
    scale: str,
) -> None:
    """To the last digit of every mean and bound."""
    config = BUSY | PRESETS[preset] | {"preset": preset}
    tenant = create(service, log_entries=100_000, **(config | WINDOW))
    live(service, tenant)
    events = log_of(service, tenant)
    kinds = {event["event"] for event in events}
    assert kinds == {
        *("selected", "rewarded", "defaulted", "censored", "expired"),
        *("arm_added", "arm_paused", "arm_resumed", "arm_retired"),
    }
    if scale == "unit":
        config["context_scale"] = {"kind": "unit"}
    new = create(service, **config)
    log = write_log(tmp_path / "log", events)
    assert main(["replay", log, "--tenant", new, "--url", twin.url]) == 0, capsys.readouterr().out
    assert balls_of(service, new) == balls_of(service, tenant)
    before, after = (service.counters(name) for name in (tenant, new))
    assert before["splits"] == after["splits"] > 0
    for counter in ("trials_active", "trials_flagged", "reward_sum"):
        assert after[counter] == pytest.approx(before[counter])
    given = before["rewards_applied"] + before["rewards_defaulted"]
    assert after["rewards_applied"] == given
    said = capsys.readouterr().out
    holdout = sum(event.get("holdout", False) for event in events)
    assert f"{holdout} lines of the holdout" in said
    assert re.search(rf"\b{after['trials_active'] + after['trials_flagged']} decisions", said)


def replayed(service: Service, log: str, tenant: str) -> int:
    """The exit code."""
    return main(["replay", log, "--tenant", tenant, "--url", service.url])


def test_the_log_of_many_clients_at_once(service: Service, twin: Service, tmp_path: Path) -> None:
    """Under `adaptive` its order is the order of all that was learned; scale and all."""
    config: dict[str, Any] = {"preset": "adaptive", "arms": 6, "exploration_floor": 0.1}
    scale: dict[str, Any] = {"context_scale": {"kind": "auto", "contexts": 50}}
    tenant = create(service, log_entries=100_000, **config, **scale)

    def play(number: int) -> None:
        chance, where = random.Random(number), (service, twin)[number % 2]
        for _ in range(40):
            answer = select(where, tenant, chance.gauss(0, 100)).json()
            reward(where, tenant, answer["decision_id"], chance.random())

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(play, range(6)))
    new = create(service, **config)
    assert replayed(service, write_log(tmp_path / "log", log_of(service, tenant)), new) == 0
    assert balls_of(service, new) == balls_of(service, tenant)


def test_pages_that_overlap_and_decisions_that_are_open(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line counts once; what is open stays open, under its own id."""
    tenant = create(service, log_entries=1000)
    for number in range(6):
        select(service, tenant, number / 6, decision_id=f"mine-{number}")
        if number % 2:
            reward(service, tenant, f"mine-{number}", 0.5)
    events = log_of(service, tenant)
    new = create(service)
    log = write_log(tmp_path / "log", [*events[:5], *events[2:], *events[-1:]])
    assert replayed(service, log, new) == 0
    assert "3 are still open" in capsys.readouterr().out
    assert balls_of(service, new) == balls_of(service, tenant)
    assert reward(service, new, "mine-0").json()["status"] == "applied"


def test_a_log_that_lacks_its_beginning_is_told(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = create(service, log_entries=1000)
    for number in range(4):
        select(service, tenant, decision_id=f"mine-{number}")
    for number in range(4):
        reward(service, tenant, f"mine-{number}")
    log = write_log(tmp_path / "log", log_of(service, tenant)[2:])
    assert replayed(service, log, create(service)) == 1
    assert "2 decisions end in this log that were not made in it" in capsys.readouterr().out


def test_another_configuration_is_told(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = create(service, log_entries=1000, neighbours=1)
    for _ in range(8):
        reward(service, tenant, select(service, tenant).json()["decision_id"])
    log = write_log(tmp_path / "log", log_of(service, tenant))
    assert replayed(service, log, create(service, neighbours=2)) == 1
    assert "fell into other balls" in capsys.readouterr().out


@pytest.mark.parametrize(
    "config, said",
    [
        ({"holdout": 0.5}, "`holdout`"),
        ({"context_scale": {"kind": "auto"}}, "`context_scale`"),
        ({"arms": ["x", "y"]}, "Line 1 of the log cannot happen again"),
        (
            {"context_scale": {"kind": "linear", "low": 0, "high": 2, "outside": "clamp"}},
            "maps to 0.25, not 0.5",
        ),
    ],
)
def test_tenants_that_cannot_live_through_it(
    service: Service,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    config: dict[str, Any],
    said: str,
) -> None:
    tenant = create(service, log_entries=1000)
    select(service, tenant)
    log = write_log(tmp_path / "log", log_of(service, tenant))
    assert replayed(service, log, create(service, **config)) == 1
    assert said in capsys.readouterr().err
    assert replayed(service, log, new_name()) == 1
    assert "There is no tenant" in capsys.readouterr().err
    used = create(service)
    select(service, used)
    assert replayed(service, log, used) == 1
    assert "has decided before" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        '{"event": "selected"}',
        '{"id": "1-0", "event": "danced", "arm": "0"}',
        '{"id": "1-0", "event": "selected", "arm": "0", "decision_id": "d", "context": 1e400, '
        '"mapped_context": 0.5, "ball": 0}',
    ],
)
def test_lines_that_are_none(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    log = tmp_path / "log"
    log.write_text("\n" + line + "\n")
    assert replayed(service, str(log), create(service)) == 1
    assert "Line 2 of the log" in capsys.readouterr().err
    assert replayed(service, str(tmp_path / "none"), create(service)) == 1
    assert "cannot be read" in capsys.readouterr().err
