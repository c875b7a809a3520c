"""The life of a tenant: made once, read, listed, deleted without a trace, made again afresh."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from service.algorithm import Parameters
from tests.api.calls import (
    CONFIG,
    ONE_ARM,
    assert_problem,
    balls_of,
    call,
    content_of,
    create,
    decide,
    reward,
    select,
    send,
)
from tests.support.engine import new_name
from tests.support.servers import Service

MANY_ARMS = 10_000


def put(service: Service, tenant: str, config: dict[str, Any]) -> Any:
    """The answer to a creation."""
    return call(service, "PUT", f"/tenants/{tenant}", config)


def read(service: Service, tenant: str) -> Any:
    """The tenant's configuration and counters."""
    answer = call(service, "GET", f"/tenants/{tenant}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def delete(service: Service, tenant: str) -> None:
    """Deletes the tenant."""
    answer = call(service, "DELETE", f"/tenants/{tenant}")
    assert (answer.status_code, answer.content) == (204, b"")


def assert_covers(balls: list[dict[str, Any]], arms: list[str]) -> None:
    """The balls tile [0, 1] for every arm, once."""
    tiles: dict[str, list[list[float]]] = {arm: [] for arm in arms}
    for ball in balls:
        width = 2.0 ** -ball["depth"]
        assert ball["interval"] == [ball["index"] * width, (ball["index"] + 1) * width]
        for arm in ball["arms"]:
            tiles[arm].append(ball["interval"])
    for arm, intervals in tiles.items():
        ends = [0.0, *(end for _, end in sorted(intervals))]
        assert [start for start, _ in sorted(intervals)] == ends[:-1], arm
        assert ends[-1] == 1.0, arm


# -- creation


def test_the_key_is_shown_once(service: Service) -> None:
    name = new_name()
    first, again = put(service, name, CONFIG), put(service, name, CONFIG)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["api_key"].startswith("zk_")
    assert again.json() == {field: first.json()[field] for field in ("tenant", "config")}


def test_every_tenant_has_a_key_of_its_own(service: Service) -> None:
    keys = {put(service, new_name(), CONFIG).json()["api_key"] for _ in range(5)}
    assert len(keys) == 5


def test_another_configuration_is_a_conflict_and_the_first_stands(service: Service) -> None:
    name = create(service)
    before = read(service, name)
    assert_problem(put(service, name, CONFIG | {"arms": 4}), 409, name)
    assert read(service, name) == before


def test_the_body_is_compared_as_sent(service: Service) -> None:
    """A default that is spelt out is another body: the default may change one day."""
    name = create(service)
    spelt_out = CONFIG | {"split_wait_ms": read(service, name)["config"]["split_wait_ms"]}
    assert put(service, name, spelt_out).status_code == 409
    reordered = '{ "noise": 1e-1, "horizon": 1000, "preset": "simulation", "arms": 3 }'
    assert send(service, "PUT", f"/tenants/{name}", reordered).status_code == 200


def test_the_configuration_is_kept_resolved(service: Service) -> None:
    name = create(service, preset="paper", lipschitz=2.5)
    config = read(service, name)["config"]
    assert (
        config
        == put(service, name, CONFIG | {"preset": "paper", "lipschitz": 2.5}).json()["config"]
    )
    sent = {**CONFIG, "preset": "paper", "lipschitz": 2.5}
    resolved = Parameters.resolve(
        "paper", horizon=CONFIG["horizon"], noise=CONFIG["noise"], lipschitz=2.5
    )
    for field in Parameters.__dataclass_fields__:
        assert config[field] == getattr(resolved, field), field
    assert config.items() >= sent.items()
    assert config["similarity"] == {"kind": "learned"}
    assert config["reward_window_seconds"] == config["retention_seconds"] == 3600


# -- reading


def test_tenants_are_listed_by_name(service: Service) -> None:
    assert call(service, "GET", "/tenants").json() == {"tenants": []}
    for name in ("b", "c", "a"):
        create(service, name)
    delete(service, "b")
    assert call(service, "GET", "/tenants").json() == {"tenants": ["a", "c"]}


def test_the_counters_count(service: Service, twin: Service) -> None:
    name = create(service, **ONE_ARM)
    late = select(service, name).json()["decision_id"]
    for value in (0.0, 1.0, 1.0):
        reward(twin, name, decide(service, name), value)
    reward(service, name, late, 0.5)
    reward(twin, name, late, 0.5)
    reward(twin, name, late, 0.6)
    counters = read(twin, name)["counters"]
    assert counters == read(service, name)["counters"]
    expected = {
        "trials_active": 4,
        "trials_flagged": 0,
        "rewards_applied": 4,
        "rewards_duplicate": 1,
        "rewards_conflict": 1,
        "rewards_late": 0,
        "splits": 1,
        "active": 2,
        "flagged": 0,
        "depth": 1,
    }
    assert counters.items() >= expected.items()


def test_the_time_of_creation_is_told(service: Service) -> None:
    created = datetime.fromisoformat(read(service, create(service))["created_at"])
    assert abs(datetime.now(UTC) - created) < timedelta(seconds=30)


@pytest.mark.parametrize("arms", [["red", "a b", "é", "😀", "}"], ["7", "3"], ["x" * 128]])
def test_arms_are_played_by_their_names(service: Service, arms: list[str]) -> None:
    name = create(service, arms=arms)
    played = [select(service, name).json()["arm"] for _ in arms]
    assert played == arms
    (root, *_) = balls_of(service, name)
    assert root["arms"] == arms


def test_counted_arms_are_named_by_their_numbers(service: Service) -> None:
    name = create(service)
    assert [select(service, name).json()["arm"] for _ in range(3)] == ["0", "1", "2"]


# -- the partition


def test_the_root_is_flagged_and_fills(service: Service) -> None:
    name = create(service, neighbours=2)
    (root,) = balls_of(service, name)
    assert root == {
        "id": 0,
        "interval": [0.0, 1.0],
        "depth": 0,
        "index": 0,
        "phase": "flagged",
        "arms": ["0", "1", "2"],
        "n": 0,
        "mean": None,
        "ucb": None,
        "fill": 0.0,
    }
    reward(service, name, decide(service, name))
    assert balls_of(service, name)[0]["fill"] == pytest.approx(1 / 6)


def test_a_ucb_is_null_while_it_is_infinite(service: Service) -> None:
    name = create(service, **ONE_ARM)
    selection = select(service, name, 0.9).json()
    assert all(ball["ucb"] is None and ball["mean"] is None for ball in balls_of(service, name))
    reward(service, name, selection["decision_id"], 0.25)
    balls = {ball["id"]: ball for ball in balls_of(service, name)}
    credited = balls.pop(selection["ball"])
    assert (credited["n"], credited["mean"], credited["fill"]) == (1, 0.25, None)
    assert credited["ucb"] > 0.25
    assert all(ball["ucb"] is None for ball in balls.values())


def test_the_partition_covers_everything_as_it_grows(service: Service, twin: Service) -> None:
    arms = ["red", "blue", "green", "white"]
    name = create(service, arms=arms, neighbours=1, flag_coefficient=0.2)
    seen = []
    for trial in range(120):
        seen.append(balls_of(twin, name))
        assert_covers(seen[-1], arms)
        selection = select(service, name, trial % 16 / 16).json()
        reward(twin, name, selection["decision_id"], float(len(selection["arm"]) > 4))
    assert {"active", "flagged"} in [{ball["phase"] for ball in balls} for balls in seen]
    assert max(ball["depth"] for ball in seen[-1]) >= 2


# -- the end


def test_a_deleted_tenant_is_gone_everywhere(service: Service, twin: Service) -> None:
    name = create(service)
    decision_id = decide(twin, name)
    delete(service, name)
    for one in (service, twin):
        for path in (f"/tenants/{name}", f"/tenants/{name}/partition"):
            assert_problem(call(one, "GET", path), 404, name)
        assert_problem(call(one, "DELETE", f"/tenants/{name}"), 404, name)
        assert_problem(select(one, name), 404, name)
        assert_problem(reward(one, name, decision_id), 404, name)
        assert name not in call(one, "GET", "/tenants").json()["tenants"]


def test_a_deleted_tenant_leaves_no_key(service: Service, raw: "redis.Redis") -> None:
    """Split balls, flagged ones, samples, decisions open and rewarded, and ids of the client's."""
    name = create(service, neighbours=1, flag_coefficient=0.2, buckets=2)
    for trial in range(60):
        selection = select(service, name, trial % 8 / 8, decision_id=f"mine-{trial}").json()
        if trial % 7:
            reward(service, name, selection["decision_id"], trial % 3)
    assert read(service, name)["counters"]["splits"] > 0
    delete(service, name)
    left = [key for key in content_of(raw) if b":pointer:" not in key]
    assert left == []
    assert all(raw.ttl(key) > 0 for key in content_of(raw))


def test_a_tenant_made_again_starts_afresh(service: Service, twin: Service) -> None:
    """Also for a service that still remembers the old one, and for rewards of the old one."""
    name = create(service, **ONE_ARM)
    old = select(twin, name, decision_id="mine").json()
    reward(twin, name, "mine")
    delete(service, name)
    create(service, name, arms=["red", "green"])
    assert_problem(reward(twin, name, old["decision_id"]), 404)
    assert select(twin, name).json()["arm"] == "red"
    assert read(twin, name)["counters"]["rewards_applied"] == 0
    assert select(twin, name, decision_id="mine").json()["arm"] == "green"


def test_a_tenant_of_10_000_arms_lives_and_leaves_nothing(
    service: Service, raw: "redis.Redis"
) -> None:
    name = create(service, arms=MANY_ARMS, similarity={"kind": "none"})
    assert read(service, name)["counters"]["active"] == 2 * MANY_ARMS
    for context in (0.0, 0.5, 1.0):
        selection = select(service, name, context).json()
        applied = reward(service, name, selection["decision_id"]).json()
        assert (applied["status"], applied["ball"]) == ("applied", selection["ball"])
    assert_covers(balls_of(service, name), [str(arm) for arm in range(MANY_ARMS)])
    delete(service, name)
    assert content_of(raw) == {}
