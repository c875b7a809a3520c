"""Arms come and go over HTTP: the partition stays whole, and only what may be played is played."""

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from service.store import RETIRED, Store
from tests.api.calls import assert_problem, balls_of, call, create, reward, select
from tests.api.values import NO_ARM
from tests.support.servers import Service

QUICK = {"buckets": 2, "neighbours": 1, "patience": 2, "flag_coefficient": 0.05}
GIVEN: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "features": {"kind": "features", "features": [[0.0], [0.01], [1.0], [1.01]]},
    "curves": {"kind": "curves", "curves": [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]},
}
TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": {"preset": "adaptive", "arms": 4},
    "learned": QUICK | {"arms": 4},
    **{
        kind: {"arms": 4, "flag_coefficient": 0.05, "similarity": similarity}
        for kind, similarity in GIVEN.items()
    },
}
ODD_NAMES = [
    *("a/b", "/", "a//b/", "%", "%2F", "100%", "a b", " ", "?x=1", "#top", "é", "😀", "中文"),
    *("a\\b", "...", ".a", "a/..", "a+b", "a&b", "'\"", "}", "arms", "x" * 128, "é" * 128),
]


def path_of(tenant: str, arm: str) -> str:
    """Where an arm is; a name of dots alone would be taken for a step in the path."""
    return f"/tenants/{tenant}/arms/{quote(arm, safe='').replace('.', '%2E')}"


def change(service: Service, method: str, tenant: str, arm: str, body: Any = None) -> Any:
    """The answer to a change that must go well."""
    answer = call(service, method, path_of(tenant, arm), body)
    assert answer.status_code in (200, 201, 204), answer.text
    return answer.json() if answer.content else None


def pause(service: Service, tenant: str, arm: str, *, paused: bool = True) -> None:
    """Pauses an arm, or resumes it."""
    state = "paused" if paused else "live"
    assert change(service, "PATCH", tenant, arm, {"paused": paused}) == {"arm": arm, "state": state}


def arms_of(service: Service, tenant: str) -> dict[str, str]:
    """The catalogue, in its order: the arms and their states."""
    answer = call(service, "GET", f"/tenants/{tenant}/arms")
    assert answer.status_code == 200, answer.text
    assert answer.json()["tenant"] == tenant
    return {arm["arm"]: arm["state"] for arm in answer.json()["arms"]}


def assert_whole(service: Service, tenant: str) -> None:
    """Each arm that is not retired is in one ball at every context, and no ball is empty."""
    catalogue = list(arms_of(service, tenant))
    tiles: dict[str, list[tuple[float, float]]] = {arm: [] for arm in catalogue}
    for ball in balls_of(service, tenant):
        assert ball["arms"], ball
        assert ball["arms"] == sorted(ball["arms"], key=catalogue.index), "not in catalogue order"
        for arm in ball["arms"]:
            tiles[arm].append(tuple(ball["interval"]))
    for arm, intervals in tiles.items():
        intervals.sort()
        assert intervals, f"{arm} is in no ball"
        assert (intervals[0][0], intervals[-1][1]) == (0.0, 1.0), arm
        assert all(left[1] == right[0] for left, right in pairwise(intervals)), (arm, intervals)


def play(service: Service, tenant: str, chance: random.Random, trials: int) -> Counter[str]:
    """Selects and rewards; how often each arm was played."""
    played: Counter[str] = Counter()
    for _ in range(trials):
        chosen = select(service, tenant, chance.random()).json()
        played[chosen["arm"]] += 1
        value = chance.choice([0.0, 0.5, 1.0])
        assert reward(service, tenant, chosen["decision_id"], value).json()["status"] == "applied"
    return played


@pytest.mark.parametrize("kind", TENANTS)
def test_the_partition_stays_whole(service: Service, kind: str) -> None:
    """After each of thirty changes of any kind, with plays between them."""
    tenant, chance = create(service, **TENANTS[kind]), random.Random(kind)
    expected = dict.fromkeys(map(str, range(4)), "live")
    for number in range(30):
        arm = chance.choice(list(expected) or ["new"])
        match chance.choice(["add", "pause", "pause", "resume", "retire"]) if expected else "add":
            case "add":
                arm = f"new {number}"
                change(service, "PUT", tenant, arm)
                expected[arm] = "live"
            case "retire":
                change(service, "DELETE", tenant, arm)
                del expected[arm]
            case kind_of_change:
                paused = kind_of_change == "pause"
                pause(service, tenant, arm, paused=paused)
                expected[arm] = "paused" if paused else "live"
        assert list(arms_of(service, tenant).items()) == list(expected.items())
        assert_whole(service, tenant)
        live = {arm for arm, state in expected.items() if state == "live"}
        if live:
            assert set(play(service, tenant, chance, 4)) <= live
        else:
            assert_problem(select(service, tenant), 409, "paused")


@pytest.mark.parametrize("kind", TENANTS)
def test_a_paused_arm_is_not_played_and_keeps_what_is_known_of_it(
    service: Service, kind: str
) -> None:
    tenant, chance = create(service, **TENANTS[kind]), random.Random(kind)
    play(service, tenant, chance, 60)
    pause(service, tenant, "2")
    known = {ball["id"]: ball["n"] for ball in balls_of(service, tenant) if ball["arms"] == ["2"]}
    assert "2" not in play(service, tenant, chance, 60)
    now = {ball["id"]: ball["n"] for ball in balls_of(service, tenant) if ball["arms"] == ["2"]}
    assert known.items() <= now.items()
    pause(service, tenant, "2", paused=False)
    assert_whole(service, tenant)
    chosen = select(service, tenant, eligible=["2"])
    assert chosen.json()["arm"] == "2"


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_ball_that_waits_for_no_other_arm_is_split_at_that_call(
    service: Service, method: str
) -> None:
    """Two of three arms have their samples: the change of the third completes the ball."""
    config: dict[str, Any] = {
        "arms": 3,
        "neighbours": 1,
        "buckets": 1,
        "cluster_ratio": 0.0,
        "noise": 0.0,
    }
    tenant = create(service, **config)
    for arm in ("0", "1"):
        chosen = select(service, tenant, 0.4).json()
        assert (chosen["arm"], chosen["phase"]) == (arm, "flagged")
        reward(service, tenant, chosen["decision_id"], float(arm))
    assert [ball["phase"] for ball in balls_of(service, tenant)] == ["flagged"]
    change(service, method, tenant, "2", {"paused": True} if method == "PATCH" else None)
    balls = balls_of(service, tenant)
    assert {ball["phase"] for ball in balls} == {"active"}
    assert len(balls) == (6 if method == "PATCH" else 4)
    assert_whole(service, tenant)


@pytest.mark.parametrize("kind", TENANTS)
def test_rewards_of_a_retired_arm_are_ignored_and_its_name_starts_anew(
    service: Service, kind: str
) -> None:
    tenant = create(service, **TENANTS[kind])
    old = select(service, tenant, eligible=["1"]).json()["decision_id"]
    counted = select(service, tenant, eligible=["1"]).json()["decision_id"]
    assert reward(service, tenant, counted).json()["status"] == "applied"
    change(service, "DELETE", tenant, "1")
    assert_problem(select(service, tenant, eligible=["1"]), 422, "eligible", "'1'")
    change(service, "PUT", tenant, "1")
    assert list(arms_of(service, tenant)) == ["0", "2", "3", "1"]
    for _ in range(2):
        assert reward(service, tenant, old).json()["status"] == "ignored"
    assert reward(service, tenant, counted).json()["status"] == "duplicate"
    state = call(service, "GET", f"/decisions/{tenant}/{old}").json()
    assert (state["arm"], state["state"], state["reward"]) == ("1", "open", None)
    (ball,) = [ball for ball in balls_of(service, tenant) if "1" in ball["arms"]]
    assert (ball["arms"], ball["interval"], ball["phase"]) == (["1"], [0.0, 1.0], "active")
    assert (ball["n"], ball["mean"]) == (0, None)
    chosen = select(service, tenant, eligible=["1"]).json()
    assert chosen["ball"] == ball["id"]
    assert reward(service, tenant, chosen["decision_id"]).json()["status"] == "applied"
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert (counters["rewards_applied"], counters["rewards_ignored"]) == (2, 2)


@pytest.mark.parametrize("kind", TENANTS)
def test_a_tenant_lives_on_after_all_its_arms_are_retired(service: Service, kind: str) -> None:
    tenant, chance = create(service, **TENANTS[kind]), random.Random(kind)
    play(service, tenant, chance, 20)
    for arm in ("2", "0", "3", "1"):
        change(service, "DELETE", tenant, arm)
        assert_whole(service, tenant)
    assert arms_of(service, tenant) == {}
    assert balls_of(service, tenant) == []
    assert_problem(select(service, tenant), 409)
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert (counters["active"], counters["flagged"], counters["arms"]) == (0, 0, 0)
    change(service, "PUT", tenant, "phoenix")
    assert set(play(service, tenant, chance, 30)) == {"phoenix"}
    assert_whole(service, tenant)


def test_with_all_arms_paused_a_select_is_refused_until_one_is_resumed(service: Service) -> None:
    for config in TENANTS.values():
        tenant = create(service, **config)
        for arm in map(str, range(4)):
            pause(service, tenant, arm)
        assert_problem(select(service, tenant), 409, "paused", "resume")
        assert_problem(select(service, tenant, eligible=["1"], n=3), 409, "paused")
        pause(service, tenant, "1", paused=False)
        assert select(service, tenant).json()["arm"] == "1"


@pytest.mark.parametrize("kind", TENANTS)
def test_two_services_see_a_change_at_once(service: Service, twin: Service, kind: str) -> None:
    """Each has the tenant in its cache, as it was before the other changed it."""
    tenant = create(service, **TENANTS[kind])
    for one in (service, twin):
        select(one, tenant)
    change(twin, "PUT", tenant, "new")
    assert select(service, tenant, eligible=["new"]).json()["arm"] == "new"
    pause(service, tenant, "new")
    assert_problem(select(twin, tenant, eligible=["new"]), 409)
    open_play = select(twin, tenant, eligible=["0"]).json()["decision_id"]
    change(service, "DELETE", tenant, "0")
    assert reward(twin, tenant, open_play).json()["status"] == "ignored"
    assert_problem(select(twin, tenant, eligible=["0"]), 422, "eligible")
    change(twin, "DELETE", tenant, "new")
    change(service, "PUT", tenant, "new")
    assert select(twin, tenant, eligible=["new", "1"], n=2).json()["ranking"]
    assert arms_of(service, tenant) == arms_of(twin, tenant)
    assert list(arms_of(twin, tenant)) == ["1", "2", "3", "new"]


def test_a_batch_sees_an_arm_that_another_service_has_just_added(
    service: Service, twin: Service
) -> None:
    tenant = create(service)
    select(service, tenant)
    change(twin, "PUT", tenant, "new")
    items = [{"context": 0.5}, {"context": 0.5, "eligible": ["new"]}]
    answer = call(service, "POST", "/select/batch", {"tenant": tenant, "items": items})
    assert [item["arm"] for item in answer.json()["items"]][1] == "new"


@pytest.mark.parametrize("kind", ["adaptive", "none"])
def test_odd_names(service: Service, kind: str) -> None:
    """Each is added, listed, played, shown, paused, retired, and added anew."""
    tenant = create(service, **TENANTS[kind] | {"arms": ["first"], "similarity": None})
    for name in ODD_NAMES:
        assert change(service, "PUT", tenant, name) == {"arm": name, "state": "live"}
    assert list(arms_of(service, tenant)) == ["first", *ODD_NAMES]
    for name in ODD_NAMES:
        chosen = select(service, tenant, eligible=[name]).json()
        assert chosen["arm"] == name
        shown = call(service, "GET", f"/decisions/{tenant}/{chosen['decision_id']}").json()
        assert (shown["arm"], shown["ball"]["arms"]) == (name, [name])
        pause(service, tenant, name)
        change(service, "DELETE", tenant, name)
    assert list(arms_of(service, tenant)) == ["first"]
    for name in ODD_NAMES:
        change(service, "PUT", tenant, name)
    assert_whole(service, tenant)


def test_what_is_refused(service: Service) -> None:
    tenant = create(service)
    for method, body in (("PATCH", {"paused": True}), ("DELETE", None)):
        assert_problem(call(service, method, path_of(tenant, "nobody"), body), 404, "nobody")
        assert_problem(call(service, method, path_of("nowhere", "0"), body), 404, "nowhere")
        assert_problem(call(service, method, path_of(tenant, "x" * 129), body), 422, "arm")
    assert_problem(call(service, "PUT", path_of("nowhere", "0")), 404, "nowhere")
    assert_problem(call(service, "PUT", path_of(tenant, "x" * 129)), 422, "arm")
    for name in ("", *NO_ARM):
        assert_problem(call(service, "PUT", path_of(tenant, name)), 422, "arm")
    assert_problem(call(service, "GET", "/tenants/nowhere/arms"), 404, "nowhere")
    change(service, "DELETE", tenant, "1")
    for method, body in (("PATCH", {"paused": False}), ("DELETE", None)):
        assert_problem(call(service, method, path_of(tenant, "1"), body), 404, "'1'")
    assert list(arms_of(service, tenant)) == ["0", "2"]


@pytest.mark.parametrize("method, status", [("DELETE", 404), ("PUT", 201)])
def test_a_retirement_that_was_cut_short_is_finished_by_the_next_call_for_that_name(
    service: Service, store_url: str, method: str, status: int
) -> None:
    """The worker died after the change, before it took the arm out of its balls."""
    tenant = create(service, arms=3, neighbours=1, buckets=1)

    async def cut_short() -> None:
        store = Store(store_url)
        try:
            found = await store.directory.read(tenant)
            for arm in (2, 1, 0):
                await store.arms.change(found, arm, state=RETIRED, now_ms=found.created_at_ms)
                found = await store.directory.read(tenant)
        finally:
            await store.close()

    asyncio.run(cut_short())
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["flagged"] == 1
    assert call(service, method, path_of(tenant, "0")).status_code == status
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["flagged"] == 0


def test_a_tenant_has_only_so_many_arms_in_its_life(service: Service) -> None:
    tenant = create(service, preset="adaptive", arms=100_000)
    assert_problem(call(service, "PUT", path_of(tenant, "more")), 409, "100000", "new tenant")
    change(service, "DELETE", tenant, "7")
    assert_problem(call(service, "PUT", path_of(tenant, "7")), 409, "retired")


def test_the_same_change_again_changes_nothing(service: Service) -> None:
    tenant = create(service)
    assert call(service, "PUT", path_of(tenant, "new")).status_code == 201
    pause(service, tenant, "new")
    again = call(service, "PUT", path_of(tenant, "new"))
    assert (again.status_code, again.json()["state"]) == (200, "paused")
    before = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    pause(service, tenant, "new")
    assert call(service, "GET", f"/tenants/{tenant}").json()["counters"] == before


@pytest.mark.parametrize("kind", ["adaptive", "none"])
def test_arms_added_at_the_same_time_are_each_added_once(
    service: Service, twin: Service, kind: str
) -> None:
    """Eight callers at two services; some want the same arm, some each their own."""
    tenant = create(service, **TENANTS[kind])

    def put(number: int, arm: str) -> httpx.Response:
        return call((service, twin)[number % 2], "PUT", path_of(tenant, arm))

    wanted = [*["same"] * 8, *(f"own {number}" for number in range(8))]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(put, range(16), wanted))
    statuses = Counter(zip(wanted, (answer.status_code for answer in answers), strict=True))
    assert statuses["same", 201] == 1
    assert statuses["same", 200] == 7
    assert all(statuses[f"own {number}", 201] == 1 for number in range(8))
    names = [arm["arm"] for arm in call(service, "GET", f"/tenants/{tenant}/arms").json()["arms"]]
    assert Counter(names) == Counter({*wanted, "0", "1", "2", "3"})
    assert_whole(service, tenant)


def test_arms_that_come_and_go_under_load(service: Service, twin: Service) -> None:
    """Selects and rewards meanwhile are all answered, by arms that were there."""
    tenant = create(service, **TENANTS["learned"])

    def load(number: int) -> Counter[int]:
        chance, statuses, caller = (
            random.Random(number),
            Counter[int](),
            (service, twin)[number % 2],
        )
        for _ in range(40):
            chosen = select(caller, tenant, chance.random())
            statuses[chosen.status_code] += 1
            rewarded = reward(caller, tenant, chosen.json()["decision_id"], 0.5)
            statuses[rewarded.status_code] += 1
        return statuses

    def turn(number: int) -> Counter[int]:
        statuses, caller = Counter[int](), (service, twin)[number % 2]
        for turn in range(8):
            path = path_of(tenant, f"{number} {turn}")
            statuses[call(caller, "PUT", path).status_code] += 1
            for paused in (True, False):
                statuses[call(caller, "PATCH", path, {"paused": paused}).status_code] += 1
            statuses[call(caller, "DELETE", path).status_code] += 1
        return statuses

    with ThreadPoolExecutor(6) as pool:
        loads = [pool.submit(load, number) for number in range(4)]
        turns = [pool.submit(turn, number) for number in range(2)]
        assert sum((run.result() for run in loads), Counter()) == {200: 320}
        assert sum((run.result() for run in turns), Counter()) == {200: 32, 201: 16, 204: 16}
    assert list(arms_of(service, tenant)) == ["0", "1", "2", "3"]
    assert_whole(service, tenant)
