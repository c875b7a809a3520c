"""What must hold of a tenant of the preset `adaptive`, whatever a test did."""

import struct
from collections import Counter
from typing import Any

import numpy as np
import pytest

from service.algorithm.partition import MOST_BALLS
from service.store import keys
from service.store.records import CurveRecord, ModelRecord
from service.store.tenant import LIVE
from tests.support.audit_catalogue import Catalogue
from tests.support.audit_path import check_path


def audit_curves(
    client: Any, state: dict[str, bytes], base: str, *, open_plays: Counter[int]
) -> None:
    """The curves cover [0, 1], the rankings agree with them, and the counters with both."""
    arms, model = int(state["arms"]), ModelRecord.unpack(state["model"])
    found = {
        int(key.rpartition(b":")[2]): client.get(key)
        for key in client.scan_iter(f"{base}curve:*", count=1000)
    }
    catalogue = Catalogue.read(client, state, base)
    untried = [arm for arm in catalogue.kept if arm not in found]
    assert set(found) <= set(catalogue.kept)
    assert model.tried == len(found)
    fresh = [arm for arm in untried if catalogue.states[arm] == LIVE]
    asked = client.get(keys.derived(base, "asked", 0))
    assert np.flatnonzero(np.unpackbits(np.frombuffer(asked, np.uint8))).tolist() == fresh
    assert model.fresh == len(fresh)
    curves = {arm: CurveRecord.unpack(packed) for arm, packed in found.items()}
    for arm, curve in curves.items():
        _check_cover(arm, curve, open_plays=open_plays[arm])
    _check_counters(client, state, base, curves, left=arms - model.tried, arms=arms)
    assert all(curve.step <= model.step for curve in curves.values())
    live = {arm: curve for arm, curve in curves.items() if catalogue.states[arm] == LIVE}
    _check_rankings(client, base, live)
    _check_means(client, base, curves)
    if len(catalogue.kept) == len(catalogue.states):
        _check_rewards(state, model, curves)


def _check_rewards(
    state: dict[str, bytes], model: ModelRecord, curves: dict[int, CurveRecord]
) -> None:
    """While no arm took what it had learned away with it."""
    given = int(state.get("rewards_applied", 0)) + int(state.get("rewards_defaulted", 0))
    rewards = sum(curve.rewards for curve in curves.values())
    assert given == rewards == model.rewards, "a reward was lost or counted twice"
    for name, sum_of_all in (
        ("bend_square", model.bend_squares),
        ("bend_known", model.bends_known),
    ):
        assert sum_of_all == pytest.approx(sum(getattr(c, name) for c in curves.values()), abs=1e-9)
    assert model.arms_rewarded == sum(curve.rewards > 0 for curve in curves.values())
    splits = int(state.get("splits", 0))
    merged = splits - sum(len(curve.balls) - 1 for curve in curves.values())
    assert int(state.get("next_ball", 0)) == 1 + len(curves) + 2 * splits + merged


def _check_cover(arm: int, curve: CurveRecord, *, open_plays: int) -> None:
    assert 1 <= len(curve.balls) <= MOST_BALLS
    end = 0.0
    for ball in curve.balls:
        assert ball.interval.start == end, f"arm {arm}: gap or overlap at {end}"
        end = ball.interval.end
        assert min(ball.flying_left, ball.flying_right) >= 0
        assert ball.variance > 0
    assert end == 1.0
    flying = sum(ball.flying_left + ball.flying_right for ball in curve.balls)
    assert flying == open_plays, f"arm {arm}: {open_plays} open, {flying} in flight"
    counted = sum(ball.count_left + ball.count_right for ball in curve.balls)
    assert counted == curve.rewards, f"arm {arm}: a reward was lost or counted twice"


def _check_counters(
    client: Any,
    state: dict[str, bytes],
    base: str,
    curves: dict[int, CurveRecord],
    *,
    left: int,
    arms: int,
) -> None:
    def counter(name: str) -> int:
        return int(state.get(name, 0))

    balls = [ball for curve in curves.values() for ball in curve.balls]
    ids = {ball.id for ball in balls}
    assert len(ids) == len(balls)
    assert max(ids, default=0) < counter("next_ball")
    assert counter("active") == len(balls)
    assert counter("splits") >= len(balls) - len(curves)
    depths = Counter(ball.depth for ball in balls)
    assert counter("depth") >= max(depths, default=0)
    assert all(counter(f"clusters_{d}") == depths[d] for d in range(counter("depth") + 1))
    waiting = client.zrange(keys.derived(base, "waiting"), 0, -1)
    assert waiting == ([b"0"] if left else [])
    assert counter("cells_owed") == (arms if left else 0)
    assert counter("cells_filled") == (arms - left if left else 0)


def _check_rankings(client: Any, base: str, curves: dict[int, CurveRecord]) -> None:
    expected: dict[tuple[int, int], dict[bytes, float]] = {}
    for arm, curve in curves.items():
        for ball in curve.balls:
            place = expected.setdefault((ball.depth, ball.index), {})
            place[struct.pack(">I", arm)] = -ball.ucb
    found = {}
    for key in client.scan_iter(f"{base}active:*", count=1000):
        *_, depth, index = key.decode().split(":")
        found[int(depth), int(index)] = dict(client.zrange(key, 0, -1, withscores=True))
    assert found == expected
    for depth, index in expected:
        check_path(client, base, depth, index)


def _check_means(client: Any, base: str, curves: dict[int, CurveRecord]) -> None:
    """Whoever has a mean in an interval has a ball there."""
    balls = {
        (ball.depth, ball.index, struct.pack(">I", arm))
        for arm, curve in curves.items()
        for ball in curve.balls
    }
    for key in client.scan_iter(f"{base}means:*", count=1000):
        depth, index = map(int, key.decode().split(":")[-2:])
        assert {(depth, index, arm) for arm in client.zrange(key, 0, -1)} <= balls
        check_path(client, base, depth, index)
