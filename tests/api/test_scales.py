"""Context scales over HTTP: what is taken, what is told, and how one is learned and frozen."""

import json
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from service.algorithm.scales import Auto, Quantiles, Ranks
from tests.api.calls import CONFIG, assert_problem, call, create, reward, select
from tests.support.servers import Service

ADAPTIVE: dict[str, Any] = {"preset": "adaptive", "arms": 4}
TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": ADAPTIVE,
    "learned": {"arms": 4, "neighbours": 1, "buckets": 2, "flag_coefficient": 0.05},
    "none": {"arms": 4, "flag_coefficient": 0.05, "similarity": {"kind": "none"}},
}
LINEAR = {"kind": "linear", "low": 10, "high": 20}


def mapped(service: Service, tenant: str, context: float, **more: Any) -> float:
    """What a context becomes; the answer tells both."""
    answer = select(service, tenant, context, **more)
    assert answer.status_code == 200, answer.text
    assert answer.json()["context"] == context
    x: float = answer.json()["mapped_context"]
    assert 0 <= x <= 1
    return x


def scale_of(service: Service, tenant: str) -> dict[str, Any]:
    """The scale as the configuration shows it."""
    answer = call(service, "GET", f"/tenants/{tenant}")
    scale: dict[str, Any] = answer.json()["config"]["context_scale"]
    return scale


def log_of(service: Service, tenant: str) -> list[dict[str, Any]]:
    """The events of decisions."""
    answer = call(service, "GET", f"/tenants/{tenant}/log")
    return [json.loads(line) for line in answer.text.splitlines()]


def noted(raw: "redis.Redis") -> list[bytes]:
    """The keys that hold contexts of a scale that is being learned."""
    return list(raw.scan_iter("*:contexts"))


@pytest.mark.parametrize("scale", [None, {"kind": "unit"}, LINEAR | {"outside": "refuse"}])
def test_what_lies_outside_is_refused(service: Service, scale: dict[str, Any] | None) -> None:
    """With the field and the range, alone and in a batch, whose other items are taken."""
    given: dict[str, Any] = {} if scale is None else {"context_scale": scale}
    tenant = create(service, **given)
    low, high = (0, 1) if scale is None or scale["kind"] == "unit" else (10, 20)
    for context in (low - 1e-9, high + 1e-9, -1e100, 1e100):
        answer = select(service, tenant, context)
        assert_problem(answer, 422, "context", f"between {low} and {high}")
        items = [{"context": low}, {"context": high}, {"context": context}]
        answer = call(service, "POST", "/select/batch", {"tenant": tenant, "items": items})
        *taken, refused = answer.json()["items"]
        assert [item["status"] for item in taken] == ["selected", "selected"]
        assert (refused["status"], refused["problem"]["status"]) == ("invalid", 422)
        assert f"context: The context must be between {low} and" in refused["problem"]["detail"]
    counters = call(service, "GET", f"/tenants/{tenant}").json()["counters"]
    assert counters["trials_flagged"] == 8
    assert [mapped(service, tenant, context) for context in (low, high)] == [0, 1]


def test_a_linear_scale_moves_what_lies_outside_to_its_ends(service: Service) -> None:
    tenant = create(service, context_scale=LINEAR)
    assert scale_of(service, tenant) == LINEAR | {"outside": "clamp"}
    contexts = [-1e100, 9.99, 10, 12.5, 20, 20.01, 1e100]
    assert [mapped(service, tenant, c) for c in contexts] == [0, 0, 0, 0.25, 1, 1, 1]


def test_a_scale_as_wide_as_numbers_go(service: Service) -> None:
    """No context becomes one that is none."""
    wide = {"kind": "linear", "low": -1e100, "high": 1e100}
    values = {"kind": "quantiles", "values": [-1e100, 0, 5e-324, 1e100]}
    for scale in (wide, values, {"kind": "auto", "contexts": 10}):
        tenant = create(service, context_scale=scale)
        contexts = [0.0, 1e100, -1e100, 5e-324, -5e-324, 1e-300, 1.0, -1e99, 1e99, 2.0, 3.0]
        found = {c: mapped(service, tenant, c) for c in contexts * 2}
        assert len(set(found.values())) > 2


@pytest.mark.parametrize("kind", TENANTS)
def test_a_linear_scale_of_the_unit_interval_plays_as_none(service: Service, kind: str) -> None:
    """The same arms in the same balls, and the same partition, float for float."""
    scales = [{"kind": "unit"}, {"kind": "linear", "low": 0, "high": 1}]
    tenants = [create(service, **TENANTS[kind], context_scale=scale) for scale in scales]
    chance = random.Random(kind)
    for _ in range(80):
        x, value = chance.choice([0.0, 1.0, chance.random()]), chance.random()
        plain, scaled = (select(service, tenant, x).json() for tenant in tenants)
        wanted = ("arm", "ball", "phase", "context", "mapped_context", "propensity")
        assert [plain[name] for name in wanted] == [scaled[name] for name in wanted]
        for tenant, chosen in zip(tenants, (plain, scaled), strict=True):
            assert reward(service, tenant, chosen["decision_id"], value).status_code == 200
    first, second = (
        call(service, "GET", f"/tenants/{tenant}/partition").json()["balls"] for tenant in tenants
    )
    assert first == second


def test_quantiles_are_ranks_in_the_sample(service: Service) -> None:
    """The mapping is that of the algorithm."""
    chance = random.Random(0)
    sample = [chance.lognormvariate(0, 2) for _ in range(1000)]
    tenant = create(service, context_scale={"kind": "quantiles", "values": sample})
    scale = Quantiles.of(sample)
    contexts = [-1.0, 0.0, min(sample), max(sample), 1e6, *sample[:20]]
    assert [mapped(service, tenant, c) for c in contexts] == [scale(c) for c in contexts]
    assert mapped(service, tenant, sorted(sample)[500]) == pytest.approx(0.5, abs=0.01)


def test_raw_and_mapped_contexts_are_told_everywhere(service: Service) -> None:
    """By answers, rankings, batches, decisions and the log; -0 is 0."""
    tenant = create(service, context_scale=LINEAR, log_entries=1000)
    answer = select(service, tenant, 12.5, n=2, decision_id="mine").json()
    both = [(one["context"], one["mapped_context"]) for one in (answer, *answer["ranking"])]
    assert both == [(12.5, 0.25)] * 3
    items = [{"context": 15.0, "decision_id": "theirs"}, {"context": 30.0}]
    body = {"tenant": tenant, "items": items}
    told = call(service, "POST", "/select/batch", body).json()["items"]
    assert [(one["context"], one["mapped_context"]) for one in told] == [(15.0, 0.5), (30.0, 1.0)]
    for name in ("mine", "mine.2"):
        state = call(service, "GET", f"/decisions/{tenant}/{name}").json()
        assert (state["context"], state["mapped_context"]) == (12.5, 0.25)
    reward(service, tenant, "mine")
    call(service, "POST", f"/decisions/{tenant}/theirs/censor")
    events = [
        (line["event"], line["context"], line["mapped_context"]) for line in log_of(service, tenant)
    ]
    assert events == [
        *[("selected", 12.5, 0.25)] * 2,
        ("selected", 15.0, 0.5),
        ("selected", 30.0, 1.0),
        ("rewarded", 12.5, 0.25),
        ("censored", 15.0, 0.5),
    ]


def test_a_repeat_is_told_by_the_context_as_it_was_sent(service: Service) -> None:
    """Two that are moved to the same end are two."""
    tenant = create(service, context_scale=LINEAR)
    first = select(service, tenant, 25.0, decision_id="mine").json()
    assert select(service, tenant, 25.0, decision_id="mine").json() == first
    assert_problem(select(service, tenant, 26.0, decision_id="mine"), 409, "another context")
    select(service, tenant, -0.0, decision_id="zero")
    assert select(service, tenant, 0.0, decision_id="zero").status_code == 200


def expected_of_auto(contexts: Iterable[float], wanted: int) -> list[float]:
    """What each context in turn must become."""
    auto, sent = Auto(contexts=wanted), list(contexts)
    return [auto.scale(sent[:place])(context) for place, context in enumerate(sent)]


@pytest.mark.parametrize("kind", TENANTS)
def test_auto_learns_from_the_first_contexts_and_is_frozen_then(
    service: Service, twin: Service, raw: "redis.Redis", kind: str
) -> None:
    """Two services in turn: both see one sample, and then one scale."""
    tenant = create(service, **TENANTS[kind], context_scale={"kind": "auto", "contexts": 20})
    chance = random.Random(kind)
    contexts = [chance.lognormvariate(3, 1) for _ in range(40)]
    expected = expected_of_auto(contexts, 20)
    for number, context in enumerate(contexts):
        caller = (service, twin)[number % 2]
        assert mapped(caller, tenant, context) == expected[number], number
        assert scale_of(caller, tenant)["kind"] == ("auto" if number < 20 else "quantiles")
        assert len(noted(raw)) == (number < 20)
    frozen = Auto(contexts=20).scale(contexts[:20])
    assert isinstance(frozen, Quantiles)
    assert scale_of(service, tenant) == scale_of(twin, tenant) == frozen.setting()
    body = CONFIG | TENANTS[kind] | {"context_scale": {"kind": "auto", "contexts": 20}}
    assert call(service, "PUT", f"/tenants/{tenant}", body).status_code == 200


def test_a_repeat_while_the_scale_is_learned_gets_the_first_answer(
    service: Service, twin: Service
) -> None:
    """Though the same context would be mapped to another by now."""
    tenant = create(service, **ADAPTIVE, context_scale={"kind": "auto", "contexts": 10})
    first = select(service, tenant, 5.0, decision_id="mine", n=2).json()
    assert first["mapped_context"] == 0.5
    for context in (7.0, 8.0, 9.0):
        select(service, tenant, context)
    assert select(twin, tenant, 5.0, decision_id="mine", n=2).json() == first
    assert_problem(select(service, tenant, 5.5, decision_id="mine"), 409, "another context")
    for context in range(20):
        select(service, tenant, float(context))
    assert scale_of(service, tenant)["kind"] == "quantiles"
    assert select(service, tenant, 5.0, decision_id="mine", n=2).json() == first
    assert_problem(select(twin, tenant, 5.5, decision_id="mine"), 409, "another context")
    state = call(service, "GET", f"/decisions/{tenant}/mine").json()
    assert (state["context"], state["mapped_context"]) == (5.0, 0.5)


def test_a_batch_is_mapped_as_if_its_contexts_were_sent_one_by_one(service: Service) -> None:
    """Also one that completes the sample."""
    chance = random.Random(0)
    contexts = [chance.uniform(0, 100) for _ in range(30)]
    expected = expected_of_auto(contexts, 10)
    tenant = create(service, **ADAPTIVE, context_scale={"kind": "auto", "contexts": 10})
    body = {"tenant": tenant, "items": [{"context": context} for context in contexts]}
    items = call(service, "POST", "/select/batch", body).json()["items"]
    assert [item["mapped_context"] for item in items] == expected


def test_first_contexts_that_come_at_the_same_time_are_each_counted(
    service: Service, twin: Service, raw: "redis.Redis"
) -> None:
    """Eight callers at two services; each is in the sample once, and no more than wanted."""
    wanted = 50
    tenant = create(service, **ADAPTIVE, context_scale={"kind": "auto", "contexts": wanted})

    def ask(number: int) -> tuple[float, float]:
        answer = select((service, twin)[number % 2], tenant, float(number))
        assert answer.status_code == 200, answer.text
        return answer.json()["context"], answer.json()["mapped_context"]

    with ThreadPoolExecutor(8) as pool:
        early = list(pool.map(ask, range(40)))
        (key,) = noted(raw)
        assert raw.strlen(key) == 8 * 40
        late = list(pool.map(ask, range(40, 100)))
    assert noted(raw) == []
    scale = scale_of(service, tenant)
    assert scale["kind"] == "quantiles"
    assert len(scale["values"]) == len(set(scale["values"])) == wanted
    assert set(scale["values"]) >= {context for context, _ in early}
    places = dict(zip(scale["values"], scale["places"], strict=True))
    frozen = Quantiles(tuple(places), tuple(places.values()))
    assert all(0 <= x <= 1 for _, x in (*early, *late))
    assert mapped(twin, tenant, 99.5) == frozen(99.5)


def test_contexts_that_are_all_alike(service: Service) -> None:
    """No sample to tell contexts apart by: they stay in the middle until another one comes."""
    tenant = create(service, **ADAPTIVE, context_scale={"kind": "auto", "contexts": 10})
    assert {mapped(service, tenant, 7.0) for _ in range(12)} == {0.5}
    assert scale_of(service, tenant)["kind"] == "auto"
    assert mapped(service, tenant, 9.0) > 0.9
    assert (
        mapped(service, tenant, 7.0) < mapped(service, tenant, 8.0) < mapped(service, tenant, 9.0)
    )
    assert scale_of(service, tenant)["values"] == [7.0, 9.0]


def test_a_repeated_select_is_one_context(service: Service) -> None:
    """Nor is one that is refused."""
    tenant = create(service, **ADAPTIVE, context_scale={"kind": "auto", "contexts": 10})
    for _ in range(12):
        assert select(service, tenant, 7.0, decision_id="mine").status_code == 200
        assert select(service, tenant, 8.0, decision_id="mine").status_code == 409
        assert select(service, tenant, 9.0, eligible=["nobody"]).status_code == 422
    assert scale_of(service, tenant)["kind"] == "auto"
    assert mapped(service, tenant, 7.0) == 0.5


def test_ranks_are_those_of_the_algorithm(service: Service) -> None:
    """While the scale is learned, ties and both ends among them."""
    tenant = create(service, **ADAPTIVE, context_scale={"kind": "auto", "contexts": 10})
    contexts = [3.0, 3.0, 1.0, 5.0, 4.0, 3.0, 1.0]
    found = [mapped(service, tenant, context) for context in contexts]
    assert found == expected_of_auto(contexts, 10)
    assert isinstance(Auto(contexts=10).scale(contexts), Ranks)
