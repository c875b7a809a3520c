"""What becomes of decisions without a reward, and of the memory that they took."""

from typing import Any

import pytest
import redis

from tests.api.calls import balls_of, call, create, decide, look, reward, select, state_of
from tests.support.servers import Service, wait_for

PRESETS = ["adaptive", "simulation"]
SHORT: dict[str, Any] = {"reward_window_seconds": 0.5, "retention_seconds": 60}


def wait_for_states(service: Service, tenant: str, ids: list[str], *, state: str) -> None:
    """Returns when this has become of all of them."""

    def are_so() -> bool:
        while ids and state_of(service, tenant, ids[-1]) == state:
            ids.pop()
        return not ids

    wait_for(are_so, what=f"all decisions {state}")


@pytest.mark.parametrize("preset", PRESETS)
def test_it_is_credited_like_a_reward(service: Service, preset: str) -> None:
    """To its ball, on the tenant's scale, with all that follows from it."""
    config: dict[str, Any] = {"reward_range": [-1, 1], "default_reward": -0.5, **SHORT}
    if preset == "simulation":
        config["neighbours"] = 1
    tenant = create(service, preset=preset, **config)
    decisions = [decide(service, tenant, 0.1 + place / 10) for place in range(3)]
    wait_for(lambda: service.counters(tenant)["rewards_defaulted"] == 3)
    states = [look(service, tenant, decision_id).json() for decision_id in decisions]
    assert [(found["state"], found["reward"]) for found in states] == [("defaulted", -0.5)] * 3
    assert service.counters(tenant)["reward_sum"] == -1.5
    balls = balls_of(service, tenant)
    if preset == "adaptive":
        assert sum(ball["n"] for ball in balls) == 3
        assert max(ball["mean"] for ball in balls if ball["n"] > 0) < 0
    else:
        # They were samples of the root, and with them it was full.
        assert service.counters(tenant)["splits"] == 1


def test_a_change_of_it_applies_to_all_that_is_closed_later(service: Service) -> None:
    """Decisions made before it too; what is closed stays."""
    tenant = create(service, default_reward=0.25, **SHORT)
    first = decide(service, tenant)
    wait_for(lambda: state_of(service, tenant, first) == "defaulted")
    second = decide(service, tenant)
    call(service, "PATCH", f"/tenants/{tenant}", {"default_reward": 0.75})
    wait_for(lambda: state_of(service, tenant, second) == "defaulted")
    third = decide(service, tenant)
    call(service, "PATCH", f"/tenants/{tenant}", {"default_reward": None})
    wait_for(lambda: state_of(service, tenant, third) == "expired")
    rewards = [look(service, tenant, one).json()["reward"] for one in (first, second, third)]
    assert rewards == [0.25, 0.75, None]
    assert service.counters(tenant)["reward_sum"] == 1.0


@pytest.mark.parametrize("preset", PRESETS)
def test_without_it_nothing_is_learned(service: Service, preset: str) -> None:
    """Under `adaptive`, bounds that plays in flight had lowered come back up; the audit counts."""
    # With a larger L there is a ball whose bound that of another holds down, and such a bound comes
    # back to within a tenth of its height only: tests/unit/test_adaptive.py.
    tenant = create(service, preset=preset, arms=1, noise=0.5, lipschitz=1.0, **SHORT)
    # The bounds are computed anew with the next reward or end of a decision: one of each before.
    reward(service, tenant, decide(service, tenant), 0.5)
    wait_for_states(service, tenant, [decide(service, tenant)], state="expired")
    before = balls_of(service, tenant)
    body = {"tenant": tenant, "items": [{"context": 0.5}] * 40}
    items = call(service, "POST", "/select/batch", body).json()["items"]
    if preset == "adaptive":
        in_flight = balls_of(service, tenant)
        assert sum(ball["ucb"] for ball in in_flight) < sum(ball["ucb"] for ball in before) - 0.01
    wait_for_states(service, tenant, [item["decision_id"] for item in items], state="expired")
    counters = service.counters(tenant)
    assert (counters["decisions_expired"], counters["rewards_applied"]) == (41, 1)
    after = balls_of(service, tenant)
    for one, other in zip(before, after, strict=True):
        assert one | {"ucb": pytest.approx(one["ucb"], abs=2e-4)} == other


def test_the_arm_of_an_open_decision_is_retired(service: Service) -> None:
    """Nobody could learn from the default reward: it expires."""
    tenant = create(service, arms=["a", "b"], default_reward=0.5, **SHORT)
    found = select(service, tenant, eligible=["a"]).json()
    call(service, "DELETE", f"/tenants/{tenant}/arms/a")
    wait_for(lambda: state_of(service, tenant, found["decision_id"]) == "expired")
    assert service.counters(tenant)["rewards_defaulted"] == 0


@pytest.mark.parametrize("default", [None, 0.5])
def test_forgotten_decisions_give_all_memory_back(
    service: Service, raw: "redis.Redis", default: float | None
) -> None:
    """No key of theirs is left, and bytes are taken about as many as before."""

    def used() -> int:
        # Any: the library's types do not know what this server's replies hold.
        info: Any = raw.info("memory")
        return int(info["used_memory"]) - int(info["mem_clients_normal"])

    tenant = create(
        service, preset="adaptive", arms=1, default_reward=default,
        reward_window_seconds=0.5, retention_seconds=0.1, log_entries=100,
    )  # fmt: skip

    def play(first: int, count: int) -> None:
        for start in range(first, first + count, 1000):
            ids = (f"decision-{number}" for number in range(start, start + 1000))
            items = [{"context": 0.5, "decision_id": decision_id} for decision_id in ids]
            body = {"tenant": tenant, "items": items}
            assert call(service, "POST", "/select/batch", body).status_code == 200

    def is_forgotten() -> bool:
        found: Any = raw.keys()
        passing = (b":decisions:", b":pointer:", b":slots")
        is_gone = not any(kind in key for key in found for kind in passing)
        return is_gone and len(found) == raw.dbsize()  # which has those that no one missed yet

    play(0, 1000)
    wait_for(is_forgotten)
    before = used()
    play(1000, 4000)
    taken = used() - before
    assert taken > 500_000
    wait_for(is_forgotten)
    wait_for(lambda: used() - before < 0.1 * taken, what="the memory given back")
    counters = service.counters(tenant)
    assert counters["trials_active"] + counters["trials_flagged"] == 5000
    assert counters["rewards_defaulted"] == (5000 if default else 0)
    assert counters["decisions_open"] == 0
