"""`eligible` and `n` over HTTP: which arms are played, and what a ranking is."""

import random
from typing import Any

import pytest

from tests.api.calls import CONFIG, assert_problem, call, create, reward, select
from tests.support.engine import learner_for
from tests.support.ranking import ranked
from tests.support.servers import Service

QUICK = {"buckets": 2, "neighbours": 1, "patience": 2, "flag_coefficient": 0.05}
TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": {"preset": "adaptive", "arms": 8},
    "learned": QUICK | {"arms": 8},
    "none": {"arms": 8, "flag_coefficient": 0.05, "similarity": {"kind": "none"}},
}
ARMS = [str(arm) for arm in range(8)]


def batch(service: Service, tenant: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """What became of each item."""
    answer = call(service, "POST", "/select/batch", {"tenant": tenant, "items": items})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def arms_in(answer: dict[str, Any]) -> list[str]:
    """The arms of a ranking, best first."""
    return [choice["arm"] for choice in answer["ranking"]]


def shown(service: Service, tenant: str, decision_id: str) -> dict[str, Any]:
    """A decision."""
    answer = call(service, "GET", f"/decisions/{tenant}/{decision_id}")
    assert answer.status_code == 200, answer.text
    state: dict[str, Any] = answer.json()
    return state


@pytest.mark.parametrize("kind", TENANTS)
def test_the_best_of_the_eligible_arms_are_played(service: Service, kind: str) -> None:
    """Those that the learner plays, in the same balls; a ranking has the best first."""
    tenant, chance = create(service, **TENANTS[kind]), random.Random(kind)
    learner = learner_for(CONFIG | TENANTS[kind])
    for trial in range(120):
        x, n = chance.choice([0.1, 0.3, 0.8]), chance.choice([1, 1, 2, 5])
        eligible = chance.choice([None, chance.sample(range(8), chance.randint(1, 8))])
        more = {} if eligible is None else {"eligible": [str(arm) for arm in eligible]}
        answer = select(service, tenant, x, n=n, **more).json()
        found = answer["ranking"] if n > 1 else [answer]
        expected = ranked(learner, x, n=n, eligible=eligible)
        mine = [(str(one.arm), one.ball.id, one.phase) for one in expected]
        assert [(c["arm"], c["ball"], c["phase"]) for c in found] == mine, trial
        assert len({arm for arm, *_ in mine}) == len(mine)
        for decision, choice in zip(expected, found, strict=True):
            value = chance.choice([0.0, 0.5, 1.0])
            learner.reward(decision, value)
            assert reward(service, tenant, choice["decision_id"], value).status_code == 200


@pytest.mark.parametrize("kind", TENANTS)
@pytest.mark.parametrize("own_id", ["mine", None])
def test_each_arm_of_a_ranking_is_a_decision(
    service: Service, kind: str, own_id: str | None
) -> None:
    """With an id of its own, a record, and a reward; the first is that of the answer itself."""
    tenant = create(service, **TENANTS[kind])
    answer = select(service, tenant, 0.3, n=4, decision_id=own_id).json()
    first, ranking = answer["decision_id"], answer["ranking"]
    ids = [choice["decision_id"] for choice in ranking]
    assert ids == [first, f"{first}.2", f"{first}.3", f"{first}.4"]
    assert len(set(arms_in(answer))) == 4
    assert ranking[0] == {name: value for name, value in answer.items() if name != "ranking"}
    assert {choice["propensity"] for choice in ranking} == {1.0}
    for place, choice in enumerate(ranking):
        state = shown(service, tenant, choice["decision_id"])
        assert (state["arm"], state["phase"], state["state"]) == (
            choice["arm"],
            choice["phase"],
            "open",
        )
        assert (state["context"], state["mapped_context"]) == (0.3, 0.3)
        assert state["expires_at"] == choice["expires_at"]
        value = place / 4
        assert reward(service, tenant, choice["decision_id"], value).json()["status"] == "applied"
        state = shown(service, tenant, choice["decision_id"])
        assert (state["state"], state["reward"]) == ("rewarded", value)
        assert reward(service, tenant, choice["decision_id"], value).json()["status"] == "duplicate"
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["rewards_applied"] == 4
    assert counters["trials_active"] + counters["trials_flagged"] == 4
    assert_problem(reward(service, tenant, f"{first}.5"), 404)
    assert_problem(reward(service, tenant, f"{first}.1"), 404)


@pytest.mark.parametrize("kind", TENANTS)
def test_a_repeat_gets_the_same_ranking_whatever_was_changed_since(
    service: Service, twin: Service, kind: str
) -> None:
    tenant = create(service, **TENANTS[kind])
    wanted: dict[str, Any] = {"decision_id": "mine", "n": 3, "eligible": ["1", "2", "5", "7"]}
    first = select(service, tenant, 0.3, **wanted)
    assert first.status_code == 200
    reward(service, tenant, "mine.2", 1.0)
    select(service, tenant, 0.3)
    assert select(twin, tenant, 0.3, **wanted).json() == first.json()
    for arm in ("1", "2", "5", "7"):
        assert call(twin, "PATCH", f"/tenants/{tenant}/arms/{arm}", {"paused": True}).json()
    assert select(service, tenant, 0.3, **wanted).json() == first.json()
    # Of another length: as much of it as there is.
    assert (
        arms_in(select(service, tenant, 0.3, **wanted | {"n": 2}).json())
        == arms_in(first.json())[:2]
    )
    assert arms_in(select(service, tenant, 0.3, **wanted | {"n": 9}).json()) == arms_in(
        first.json()
    )
    assert select(service, tenant, 0.3, decision_id="mine").json()["arm"] == first.json()["arm"]
    assert_problem(select(service, tenant, 0.4, **wanted), 409, "another context")


@pytest.mark.parametrize("kind", TENANTS)
def test_a_ranking_is_shorter_where_fewer_arms_may_be_played(service: Service, kind: str) -> None:
    tenant = create(service, **TENANTS[kind])
    assert sorted(arms_in(select(service, tenant, n=50).json())) == ARMS
    for arm in ("0", "3", "4"):
        call(service, "PATCH", f"/tenants/{tenant}/arms/{arm}", {"paused": True})
    call(service, "DELETE", f"/tenants/{tenant}/arms/5")
    assert sorted(arms_in(select(service, tenant, n=50).json())) == ["1", "2", "6", "7"]
    few = select(service, tenant, n=4, eligible=["0", "1", "3", "7", "1"]).json()
    assert sorted(arms_in(few)) == ["1", "7"]
    alone = select(service, tenant, n=2, eligible=["6"]).json()
    assert (alone["arm"], arms_in(alone)) == ("6", ["6"])
    assert_problem(select(service, tenant, n=4, eligible=["0", "4"]), 409, "eligible")


@pytest.mark.parametrize("kind", TENANTS)
def test_items_of_a_batch_have_their_own_arms(service: Service, kind: str) -> None:
    """Each as if it were sent alone."""
    tenant = create(service, **TENANTS[kind])
    call(service, "PATCH", f"/tenants/{tenant}/arms/0", {"paused": True})
    items = batch(
        service,
        tenant,
        {"context": 0.1, "eligible": ["3"], "decision_id": "a"},
        {"context": 0.2, "n": 3, "decision_id": "b"},
        {"context": 0.3, "eligible": ["0"], "decision_id": "c"},
        {"context": 0.4, "eligible": ["6", "0"], "n": 2, "decision_id": "d"},
        {"context": 0.5, "decision_id": "a"},
    )
    assert [(item["decision_id"], item["status"]) for item in items] == [
        ("a", "selected"),
        ("b", "selected"),
        ("c", "none_eligible"),
        ("d", "selected"),
        ("a", "conflict"),
    ]
    assert items[0]["arm"] == "3"
    assert "ranking" not in items[0]
    assert len(set(arms_in(items[1]))) == 3
    assert items[2]["problem"]["status"] == 409
    assert arms_in(items[3]) == ["6"]
    assert_problem(reward(service, tenant, "c"), 404)
    given = [{"decision_id": one, "reward": 0.5} for one in ("a", "b", "b.2", "b.3", "d", "d.2")]
    answer = call(service, "POST", "/reward/batch", {"tenant": tenant, "items": given}).json()
    statuses = [item.get("status") for item in answer["items"]]
    assert statuses == ["applied"] * 5 + ["unknown_decision"]


def test_an_unknown_arm_is_refused_and_nothing_is_taken(service: Service) -> None:
    tenant = create(service)
    assert_problem(select(service, tenant, eligible=["0", "none"]), 422, "eligible", "'none'")
    assert_problem(select(service, tenant, eligible=["é" * 128]), 422, "eligible", "arms")
    assert_problem(select(service, tenant, eligible=[]), 422, "eligible")
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["trials_active"] + counters["trials_flagged"] == 0


@pytest.mark.parametrize("scale", ["unit", "auto"])
@pytest.mark.parametrize("kind", TENANTS)
def test_a_repeat_gets_the_first_answer_though_an_arm_it_names_was_retired(
    service: Service, twin: Service, kind: str, scale: str
) -> None:
    """Alone and in a batch; a new decision with that arm is refused, and so is another context."""
    tenant = create(service, **TENANTS[kind], context_scale={"kind": scale})
    wanted: dict[str, Any] = {"decision_id": "mine", "n": 2, "eligible": ["1", "2", "5"]}
    first = select(service, tenant, 0.3, **wanted).json()
    for arm in ("1", "5"):
        assert call(twin, "DELETE", f"/tenants/{tenant}/arms/{arm}").status_code == 204
    assert select(service, tenant, 0.3, **wanted).json() == first
    item = {"context": 0.3, **wanted}
    again, new = batch(service, tenant, item, item | {"decision_id": "new"})
    assert again == first | {"status": "selected"}
    assert (new["status"], new["problem"]["status"]) == ("invalid", 422)
    assert_problem(select(service, tenant, 0.3, **wanted | {"decision_id": "new"}), 422, "'1'")
    assert_problem(select(service, tenant, 0.4, **wanted), 422, "'1'")


@pytest.mark.parametrize("kind", TENANTS)
def test_the_propensities_of_a_ranking_say_how_it_was_drawn(service: Service, kind: str) -> None:
    """A place is drawn from the arms that are left there, or goes to the best of them."""
    tenant = create(service, **TENANTS[kind], exploration_floor=0.5, holdout=0.2)
    seen = set()
    for _ in range(60):
        ranking = select(service, tenant, n=3, eligible=ARMS[:4]).json()["ranking"]
        assert len({choice["arm"] for choice in ranking} & set(ARMS[:4])) == 3
        states = [shown(service, tenant, choice["decision_id"]) for choice in ranking]
        assert len({state["holdout"] for state in states}) == 1, "a ranking is held out as one"
        held = 0.2  # how likely this is of the holdout, by the arms above
        for left, choice, state in zip((4, 3, 2), ranking, states, strict=True):
            drawn = held / left + (1 - held) * 0.5 / left
            best = drawn + (1 - held) * 0.5
            assert choice["propensity"] == state["propensity"]
            assert choice["propensity"] in (pytest.approx(drawn), pytest.approx(best))
            rule = state["why"]["rule"]
            if rule in ("ucb", "flagged"):
                assert choice["propensity"] == pytest.approx(best)
            held = held / left / choice["propensity"]
            seen.add(rule if rule in ("holdout", "explored") else "best")
    assert seen == {"holdout", "explored", "best"}
