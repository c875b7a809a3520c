"""The page of metrics: every name and label of the contract, and the numbers behind them."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from service.embedded import PrivateStore
from service.store import Store
from tests.api.calls import assert_problem, bearer, call, create, decide, reward, select
from tests.support.engine import new_engine
from tests.support.metrics import Page, scrape
from tests.support.servers import Service, running_service, wait_for

# Name -> type and labels, besides `le`.
FAMILIES: dict[str, tuple[str, set[str]]] = {
    "zooming_trials": ("counter", {"tenant", "phase"}),
    "zooming_rewards": ("counter", {"tenant", "outcome"}),
    "zooming_splits": ("counter", {"tenant"}),
    "zooming_balls": ("gauge", {"tenant", "phase"}),
    "zooming_clusters": ("gauge", {"tenant", "depth"}),
    "zooming_partition_depth": ("gauge", {"tenant"}),
    "zooming_suff_data_ratio": ("gauge", {"tenant"}),
    "zooming_flagged_age_seconds": ("gauge", {"tenant"}),
    "zooming_decisions": ("gauge", {"tenant", "state"}),
    "zooming_reward_sum": ("gauge", {"tenant"}),
    "zooming_regret_upper": ("gauge", {"tenant"}),
    "zooming_regret_estimate": ("gauge", {"tenant"}),
    "zooming_tenants": ("gauge", set()),
    "zooming_store_up": ("gauge", set()),
    "zooming_store_memory_bytes": ("gauge", set()),
    "zooming_store_memory_limit_bytes": ("gauge", set()),
    "zooming_store_durability": ("gauge", {"mode"}),
    "zooming_http_requests": ("counter", {"route", "method", "status"}),
    "zooming_http_request_seconds": ("histogram", {"route", "method"}),
    "zooming_split_seconds": ("histogram", set()),
    "zooming_store_seconds": ("histogram", {"step"}),
    "zooming_store_errors": ("counter", {"kind"}),
    "zooming_workers": ("gauge", set()),
    "zooming_worker_memory_bytes": ("gauge", {"worker"}),
    "zooming_build_info": ("gauge", {"version"}),
}
OF_TENANTS = {name for name, (_, labels) in FAMILIES.items() if "tenant" in labels}
# Two arms that need one sample each for the root, whose children are flagged at once.
BUSY: dict[str, Any] = {"arms": 2, "neighbours": 1, "flag_coefficient": 0}
TENANTS = 1000


def play(service: Service, tenant: str, trials: int, *, rewarded: int) -> None:
    """So many selects, the first of them rewarded with 0.5."""
    for trial in range(trials):
        decision_id = decide(service, tenant, trial / trials)
        if trial < rewarded:
            assert reward(service, tenant, decision_id, 0.5).status_code == 200


def test_every_family_is_there_with_its_type_and_labels(service: Service) -> None:
    play(service, create(service, **BUSY), 8, rewarded=8)
    page = scrape(service)
    found = {
        name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for name, family in page.families.items()
    }
    assert found == FAMILIES
    assert all(family.documentation for family in page.families.values())


def test_a_tenants_numbers_are_what_happened(service: Service) -> None:
    tenant = create(service, **BUSY)
    splits_before = scrape(service)("zooming_split_seconds_count")
    play(service, tenant, 10, rewarded=7)
    known = decide(service, tenant)
    for value, status in ((1.0, 200), (1.0, 200), (0.0, 409)):
        assert reward(service, tenant, known, value).status_code == status
    assert reward(service, tenant, "nobody-knows").status_code == 404
    page = scrape(service)
    assert page.sum("zooming_trials_total", tenant=tenant) == 11
    outcomes = {"applied": 8, "duplicate": 1, "conflict": 1, "late": 0, "unknown": 1}
    for outcome, number in outcomes.items():
        assert page("zooming_rewards_total", tenant=tenant, outcome=outcome) == number, outcome
    states = {"open": 3, "rewarded": 8, "expired": 0}
    for state, number in states.items():
        assert page("zooming_decisions", tenant=tenant, state=state) == number, state
    assert page("zooming_reward_sum", tenant=tenant) == 7 * 0.5 + 1.0
    answer = call(service, "GET", f"/tenants/{tenant}/partition").json()["balls"]
    for phase in ("active", "flagged"):
        balls = [ball for ball in answer if ball["phase"] == phase]
        assert page("zooming_balls", tenant=tenant, phase=phase) == len(balls)
    assert page("zooming_partition_depth", tenant=tenant) == max(b["depth"] for b in answer)
    splits = page("zooming_split_seconds_count") - splits_before
    assert page("zooming_splits_total", tenant=tenant) == splits > 0


def test_fill_and_age_of_flagged_balls(service: Service) -> None:
    """Three arms that need four samples each: the root stays flagged until all have come."""
    tenant = create(service, arms=3, neighbours=4)
    first = time.time()
    play(service, tenant, 6, rewarded=6)
    page = scrape(service)
    assert page("zooming_suff_data_ratio", tenant=tenant) == 6 / 12
    assert 0 < page("zooming_flagged_age_seconds", tenant=tenant) <= time.time() - first + 1
    play(service, tenant, 6, rewarded=6)
    page = scrape(service)
    assert page("zooming_splits_total", tenant=tenant) == 1
    assert page("zooming_suff_data_ratio", tenant=tenant) == 1
    assert page("zooming_flagged_age_seconds", tenant=tenant) == 0


def test_decisions_expire_and_are_forgotten(service: Service) -> None:
    """With a window of one second and a retention of three, a section of time is 34 ms."""
    tenant = create(service, reward_window_seconds=1.0, retention_seconds=3.0)
    kept = decide(service, tenant)
    assert reward(service, tenant, kept).status_code == 200
    late = decide(service, tenant)

    def states() -> dict[str, float]:
        page = scrape(service)
        return {
            state: page("zooming_decisions", tenant=tenant, state=state)
            for state in ("open", "rewarded", "expired")
        }

    wait_for(lambda: states() == {"open": 0, "rewarded": 1, "expired": 1}, what="expiry")
    assert reward(service, tenant, late).status_code == 410
    assert scrape(service)("zooming_rewards_total", tenant=tenant, outcome="late") == 1
    wait_for(lambda: not any(states().values()), what="oblivion")


def test_requests_are_counted_by_route_method_and_status(service: Service) -> None:
    before = scrape(service)
    tenant = create(service)
    play(service, tenant, 5, rewarded=3)
    select(service, "nobody")
    call(service, "GET", "/nowhere/to/be/found")
    call(service, "PROPFIND", "/select")
    call(service, "GET", "/docs")
    expected = {
        ("/select", "POST", "200"): 5,
        ("/reward", "POST", "200"): 3,
        ("/select", "POST", "404"): 1,
        ("/tenants/{tenant}", "PUT", "201"): 1,
        ("unmatched", "GET", "404"): 1,
        ("/docs", "GET", "200"): 1,
    }
    page = scrape(service)
    for (route, method, status), number in expected.items():
        series = {"route": route, "method": method, "status": status}
        name = "zooming_http_requests_total"
        assert page(name, **series) - before.sum(name, **series) == number, route
    for name, labels, number in (
        ("zooming_http_request_seconds_count", {"route": "/select", "method": "POST"}, 6),
        ("zooming_store_seconds_count", {"step": "select"}, 5),
    ):
        assert page(name, **labels) - before.sum(name, **labels) == number, name
    assert page.labels("zooming_http_requests_total", "method") == {"GET", "POST", "PUT", "other"}


def test_the_rest_of_the_tenants_is_summed_as_other(store_url: str, tmp_path: Path) -> None:
    """The oldest are shown; a tenant that is called so itself is part of the rest."""
    with running_service(
        tmp_path, redis_url=store_url, workers=1, ZOOMING_METRICS_TENANTS="2"
    ) as service:
        for name in ("zebra", "other", "mule", "ant"):
            create(service, name)
            play(service, name, 4, rewarded=2)
        page = scrape(service)
        for family in OF_TENANTS - {"zooming_clusters"}:
            tenants = {sample.labels["tenant"] for sample in page.families[family].samples}
            assert tenants == {"zebra", "other"}, family
        assert page("zooming_tenants") == 4
        assert page.sum("zooming_trials_total", tenant="other") == 3 * 4
        assert page("zooming_reward_sum", tenant="other") == 3 * 2 * 0.5
        call(service, "DELETE", "/tenants/ant")
        call(service, "DELETE", "/tenants/mule")
        assert scrape(service).sum("zooming_trials_total", tenant="other") == 4


def test_a_thousand_tenants_are_shown_within_a_second(tmp_path: Path) -> None:
    """All by name; the best of three scrapes, since the machine may be busy with something else."""

    async def create_all() -> None:
        store = Store(private.url)
        try:
            for _ in range(TENANTS):
                made = await new_engine(store, {"arms": 2, "horizon": 1000, "noise": 0.1})
                await made.reward((await made.select(0.5)).decision_id, 0.5)
        finally:
            await store.close()

    with PrivateStore(tmp_path / "store", appendfsync="everysec") as private:
        asyncio.run(create_all())
        with running_service(
            tmp_path, redis_url=private.url, ZOOMING_METRICS_TENANTS=str(TENANTS)
        ) as service:
            answers = [service.client.get("/metrics") for _ in range(3)]
    page = Page(answers[-1].text)
    assert len(page.labels("zooming_trials_total", "tenant")) == TENANTS
    assert page.sum("zooming_trials_total") == TENANTS
    assert min(answer.elapsed.total_seconds() for answer in answers) < 1


def test_the_page_obeys_prometheus_own_linter(service: Service) -> None:
    """But for one name, which is in the contract."""
    promtool = shutil.which("promtool")
    if promtool is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no promtool in PATH")
    play(service, create(service, **BUSY), 8, rewarded=8)
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=scrape(service).text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    said = [line for line in checked.stderr.splitlines() if line.strip()]
    assert all(line.startswith("zooming_reward_sum ") for line in said), said
    assert checked.stdout == ""


def test_openmetrics_is_spoken_to_who_asks_for_it(service: Service) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    answer = service.client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    for accept in ("*/*", "", "application/openmetrics-text;version=abc", "text/plain;version=1.x"):
        plain = service.client.get("/metrics", headers={"Accept": accept})
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4"), accept


def test_the_metrics_have_a_key_of_their_own(store_url: str, tmp_path: Path) -> None:
    """The admin's opens them too; a tenant's does not."""
    with running_service(
        tmp_path, redis_url=store_url, ZOOMING_METRICS_KEY="look", ZOOMING_ADMIN_KEY="rule"
    ) as service:
        body = {"arms": 2, "horizon": 1000, "noise": 0.1}
        made = call(service, "PUT", "/tenants/shop", body, key="rule").json()
        for key in ("look", "rule"):
            assert call(service, "GET", "/metrics", key=key).status_code == 200
        assert_problem(call(service, "GET", "/metrics"), 401)
        for key in ("wrong", made["api_key"]):
            assert_problem(call(service, "GET", "/metrics", key=key), 403)
        assert service.client.get("/tenants", headers=bearer("look")).status_code == 403


def test_without_the_store_the_page_says_so(tmp_path: Path) -> None:
    """And comes back with it; the failed calls are counted."""
    with running_service(tmp_path) as service:
        create(service, "shop")
        store = service.store()
        assert store is not None
        os.kill(store, signal.SIGSTOP)
        page = scrape(service)
        assert page("zooming_store_up") == 0
        assert not OF_TENANTS & set(page.families)
        assert page("zooming_store_errors_total", kind="timeout") > 0
        assert page("zooming_workers") == 1
        os.kill(store, signal.SIGCONT)
        wait_for(lambda: scrape(service)("zooming_store_up"), what="the store's return")
        assert scrape(service).labels("zooming_trials_total", "tenant") == {"shop"}


def test_memory_and_durability_are_the_stores(service: Service, raw: "redis.Redis") -> None:
    page = scrape(service)
    assert page("zooming_store_memory_bytes") == pytest.approx(
        raw.info("memory")["used_memory"], rel=0.2
    )
    assert page("zooming_store_durability", mode="everysec") == 1
    assert page.labels("zooming_store_durability", "mode") == {"everysec"}
    raw.config_set("maxmemory", 10**9)
    try:
        assert scrape(service)("zooming_store_memory_limit_bytes") == 10**9
    finally:
        raw.config_set("maxmemory", 0)
    memory = scrape(service).sum("zooming_worker_memory_bytes")
    assert 2 * 20e6 < memory < 2 * 300e6
