"""Everything is killed while decisions are open, and stays down until they should be forgotten."""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit import audit
from tests.support.servers import (
    Service,
    descendants,
    is_running,
    kill,
    require_store,
    running_service,
    wait_for,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

WINDOW_SECONDS, RETENTION_SECONDS, SLOT_SECONDS = 2.0, 0.2, 0.2
COMMON: dict[str, Any] = {
    "arms": 4,
    "reward_window_seconds": WINDOW_SECONDS,
    "retention_seconds": RETENTION_SECONDS,
    "log_entries": 10_000,
}
PAPER = {"preset": "simulation", "horizon": 1000, "noise": 0.05, "neighbours": 1}
TENANTS: dict[str, dict[str, Any]] = {
    "adaptive": COMMON | {"default_reward": 0.5},
    "paper": COMMON | PAPER | {"default_reward": 0.5},
    "expiring": COMMON | {"default_reward": None},
}
LEFT_OPEN, REWARDED = 120, 8


def leave_open(service: Service, tenant: str) -> None:
    """Decisions in balls of all kinds, of which only a few are rewarded."""
    items = [{"context": n / LEFT_OPEN, "decision_id": f"open-{n}"} for n in range(LEFT_OPEN)]
    half = LEFT_OPEN // 2
    for part in (items[:half], items[half:]):
        # Where samples are kept, the rewards have the first ball split between the two.
        body: dict[str, Any] = {"tenant": tenant, "items": part}
        service.client.post("/select/batch", json=body).raise_for_status()
        for number in range(REWARDED // 2):
            body = {"tenant": tenant, "context": number / REWARDED}
            chosen = service.client.post("/select", json=body).json()["decision_id"]
            body = {"tenant": tenant, "decision_id": chosen, "reward": 1.0}
            assert service.client.post("/reward", json=body).json()["status"] == "applied"


def ends(service: Service, tenant: str) -> Counter[str]:
    """What the log tells of the ends of decisions; each id has one."""
    lines = service.client.get(f"/tenants/{tenant}/log").text.splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] != "selected"]
    ids = Counter(event["decision_id"] for event in events)
    assert not ids or max(ids.values()) == 1
    return Counter(event["event"] for event in events)


def test_what_nobody_closed_in_time_is_closed_at_the_next_start(tmp_path: Path) -> None:
    """Longer than window and retention together: none is lost, none is counted twice."""
    require_store()
    with running_service(tmp_path, workers=2) as service:
        for tenant, body in TENANTS.items():
            service.client.put(f"/tenants/{tenant}", json=body).raise_for_status()
        for tenant in TENANTS:
            leave_open(service, tenant)
        last = time.time()
        family = [service.process.pid, *descendants(service.process.pid)]
        kill(family)
        wait_for(lambda: not any(is_running(pid) for pid in family[1:]))
    over = last + WINDOW_SECONDS + RETENTION_SECONDS + SLOT_SECONDS
    wait_for(lambda: time.time() > over, what="the end of window and retention")

    with running_service(tmp_path, workers=2) as service:
        wait_for(lambda: all(ends(service, t).total() == LEFT_OPEN + REWARDED for t in TENANTS))
        for tenant, body in TENANTS.items():
            end = "expired" if body["default_reward"] is None else "defaulted"
            assert ends(service, tenant) == {end: LEFT_OPEN, "rewarded": REWARDED}
            counters = service.counters(tenant)
            defaulted = LEFT_OPEN if end == "defaulted" else 0
            assert counters["rewards_defaulted"] == defaulted
            assert counters["reward_sum"] == REWARDED + 0.5 * defaulted
            assert service.client.get(f"/decisions/{tenant}/open-0").status_code == 404
        assert service.counters("paper")["splits"] > 0
        with service.store_client() as raw:
            wait_for(lambda: not raw.keys("*:decisions:*"), what="all forgotten")
            assert audit(raw) == len(TENANTS)
