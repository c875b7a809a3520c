"""What must hold of a store after every test, whatever the test did.

The partition is disjoint and complete; the counters agree with the records, and the rankings with
both; no key is without a TTL that should have one.
"""

import math
import struct
from collections import Counter
from typing import Any

import numpy as np

from service.algorithm import SAMPLE
from service.store import keys
from service.store.records import ACTIVE, FLAGGED, SPLIT, BallRecord
from tests.support.audit_curves import audit_curves
from tests.support.audit_path import check_path

# Any: the library's types do not know that replies are bytes unless decoding is asked for.
RawClient = Any
_DECISION = struct.Struct("<BBdddddIIII")
_REWARDED = 2
_FRESH, _UNREWARDED, _OVERDUE = -(2.0**41), -(2.0**40), 2.0**40


def audit(client: RawClient) -> int:
    """Checks every tenant of the store; how many there were."""
    audit_ttls(client)
    listed = {name.decode() for name in client.hkeys(keys.REGISTRY)}
    found = {
        key.decode().partition("{")[2].rstrip("}")
        for key in client.scan_iter(keys.tenant("*"), count=1000)
        if key.endswith(b"}")
    }
    assert found <= listed, "a tenant is missing from the list"
    for name in found:
        audit_tenant(client, name)
    return len(found)


def audit_ttls(client: RawClient) -> None:
    """Every key is of a known kind, and has a TTL just when its kind wants one."""
    found = list(client.scan_iter(count=1000))
    pipeline = client.pipeline(transaction=False)
    for key in found:
        pipeline.ttl(key)
    for key, ttl in zip(found, pipeline.execute(), strict=True):
        text, has_ttl = key.decode(), ttl != -1
        if text in (keys.REGISTRY, keys.DELETIONS, keys.IMPORTS) or text.endswith("}"):
            assert not has_ttl, text
            continue
        kind = text.partition("}:")[2].split(":")[1]
        assert kind in keys.DERIVED, f"unknown kind of key: {text}"
        assert has_ttl or kind not in keys.EXPIRING, f"{text} will never go away"
        assert not has_ttl or kind not in keys.PERMANENT, f"{text} will go away"


def audit_tenant(client: RawClient, name: str) -> None:
    """One tenant's records, counters and rankings."""
    state = {k.decode(): v for k, v in client.hgetall(keys.tenant(name)).items()}
    base = keys.base(name, state["incarnation"].decode())
    decisions = _check_decisions(state, client, base)
    if state["preset"] == b"adaptive":
        open_plays = Counter(arm for st, *_, arm, _ in decisions if st != _REWARDED)
        audit_curves(client, state, base, open_plays=open_plays)
        return
    records = {
        int(ball): BallRecord.unpack(packed)
        for ball, packed in client.hgetall(keys.derived(base, "balls")).items()
    }
    reachable = _reachable(records)
    live = [ball for ball, record in reachable.items() if record.phase != SPLIT]
    packed_arms = client.mget([keys.derived(base, "arms", ball) for ball in live])
    arms = {ball: list(_unpack_arms(p)) for ball, p in zip(live, packed_arms, strict=True)}
    _check_partition(reachable, arms)
    _check_counters(state, reachable, client, base)
    _check_rankings(client, base, reachable, float(state["confidence"]))
    for ball, record in reachable.items():
        if record.phase == FLAGGED and record.k:
            limit = int(state["patience"]) * record.k * int(state["buckets"])
            _check_cells(client, base, ball, record, buckets=int(state["buckets"]), limit=limit)


def _check_cells(
    client: RawClient, base: str, ball: int, record: BallRecord, *, buckets: int, limit: float
) -> None:
    """The counts of a flagged ball agree with its samples, and who is asked with the counts."""
    counts = np.zeros((record.arms, buckets), dtype=int)
    for bucket in range(buckets):
        packed = client.get(keys.derived(base, "samples", ball, bucket)) or b""
        samples = np.frombuffer(packed, SAMPLE)
        places = [record.interval.bucket_of(x, buckets=buckets) for x in samples["x"].tolist()]
        assert set(places) <= {bucket}
        counts[:, bucket] = np.bincount(samples["arm"], minlength=record.arms)
    assert counts.sum() == record.samples
    assert np.minimum(counts, record.k).sum() == record.filled
    packed = client.get(keys.derived(base, "cells", ball)) or b""
    stored = np.frombuffer(packed.ljust(4 * counts.shape[0] * (buckets + 2), b"\0"), ">u4")
    issued, full, *cells = stored.reshape(record.arms, buckets + 2).T
    assert np.array_equal(np.array(cells).T, counts)
    assert np.array_equal(full, (counts >= record.k).sum(axis=1))
    wanted = (full < buckets) & (issued < limit)
    bits = np.frombuffer(client.get(keys.derived(base, "asked", ball)), np.uint8)
    assert np.array_equal(np.unpackbits(bits)[: record.arms], wanted)
    assert record.asked == wanted.sum()


def _unpack_arms(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def _reachable(records: dict[int, BallRecord]) -> dict[int, BallRecord]:
    """The root and what was published below it; staged children of a dead claim are not."""
    found = {0: records[0]}
    for ball in sorted(records):
        if ball in found:
            found.update({child: records[child] for child in records[ball].children})
    return found


def _check_partition(records: dict[int, BallRecord], arms: dict[int, list[int]]) -> None:
    tiles: dict[int, list[tuple[float, float]]] = {}
    for ball, members in arms.items():
        assert members == sorted(set(members)), f"ball {ball}: arms out of catalogue order"
        assert len(members) == records[ball].arms
        interval = records[ball].interval
        for arm in members:
            tiles.setdefault(arm, []).append((interval.start, interval.end))
    assert sorted(tiles) == list(range(records[0].arms)), "some arm is in no ball"
    for arm, intervals in tiles.items():
        ends = [0.0]
        for start, end in sorted(intervals):
            assert start == ends[-1], f"arm {arm}: gap or overlap at {start}"
            ends.append(end)
        assert ends[-1] == 1.0, f"arm {arm} ends at {ends[-1]}"


def _check_counters(
    state: dict[str, bytes], records: dict[int, BallRecord], client: RawClient, base: str
) -> None:
    def counter(name: str) -> int:
        return int(state.get(name, 0))

    phases = Counter(record.phase for record in records.values())
    assert counter("active") == phases[ACTIVE]
    waiting = set(map(int, client.zrange(keys.derived(base, "waiting"), 0, -1)))
    assert waiting == {ball for ball, record in records.items() if record.phase == FLAGGED}
    flagged = [record for record in records.values() if record.phase == FLAGGED]
    owed = [min(r.k * counter("buckets") * r.arms, 2**40) for r in flagged]
    assert counter("cells_owed") == sum(owed)
    assert counter("cells_filled") == sum(record.filled for record in flagged)
    assert counter("splits") == phases[SPLIT]
    depths = Counter(r.depth for r in records.values() if r.phase == ACTIVE)
    deepest = max(record.depth for record in records.values())
    assert counter("depth") == deepest
    for depth in range(deepest + 1):
        assert counter(f"clusters_{depth}") == depths[depth] or depth == 0
    credited = sum(record.n + record.samples for record in records.values())
    assert counter("rewards_applied") == credited, "a reward was lost or counted twice"


def _check_decisions(
    state: dict[str, bytes], client: RawClient, base: str
) -> list[tuple[Any, ...]]:
    """The ledger and the sums agree with the decisions, which are returned."""

    def counter(name: str) -> int:
        return int(state.get(name, 0))

    slots = list(client.scan_iter(f"{base}decisions:*", count=1000))
    decisions = [_DECISION.unpack(value) for slot in slots for value in client.hvals(slot)]
    states = Counter(decision[0] for decision in decisions)
    assert len(decisions) == counter("trials_active") + counter("trials_flagged")
    assert states[_REWARDED] == counter("rewards_applied")
    ring = np.frombuffer(client.get(keys.derived(base, "ledger")) or b"", ">u4").reshape(-1, 4)
    assert ring[:, 2].sum() == len(decisions)
    assert ring[:, 3].sum() == states[_REWARDED]
    _check_sums(state, [d for d in decisions if d[0] == _REWARDED])
    return decisions


def _check_sums(state: dict[str, bytes], rewarded: list[tuple[Any, ...]]) -> None:
    """Upper regret counts from the bound, estimated regret from the best mean if there was one."""
    low, span = float(state["low"]), float(state["span"])
    sums = np.zeros(3)
    for _, _, _, _, reward, bound, best_mean, *_ in rewarded:
        value = (reward - low) / span
        estimate = 0.0 if math.isnan(best_mean) else best_mean - value
        sums += reward, (bound - value) * span, estimate * span
    assert np.allclose(struct.unpack("<ddd", state["sums"]), sums, rtol=1e-9, atol=1e-9)


def _check_rankings(
    client: RawClient, base: str, records: dict[int, BallRecord], confidence: float
) -> None:
    path: dict[bytes, bytes] = client.hgetall(keys.derived(base, "path"))
    ranked: set[int] = set()
    queued: set[int] = set()
    known: set[int] = set()
    for depth, index in {(r.depth, r.index) for r in records.values()}:
        ranking: list[Any] = client.zrange(
            keys.derived(base, "active", depth, index), 0, -1, withscores=True
        )
        for member, score in ranking:
            balls = _members(member)
            ranked.update(balls)
            for ball in balls:
                record = records[ball]
                assert (record.phase, record.depth, record.index) == (ACTIVE, depth, index)
                assert score == _score(record, balls.start, confidence, ranged=len(member) == 8)
        check_path(client, base, depth, index)
        means = client.zrange(keys.derived(base, "means", depth, index), 0, -1, withscores=True)
        for member, score in means:
            record = records[_members(member).start]
            assert (record.depth, record.index) == (depth, index)
            assert score == -record.total / record.n
        known.update(_members(member).start for member, _ in means)
        queue = client.zrange(keys.derived(base, "flagged", depth, index), 0, -1)
        queued.update(map(int, queue))
        assert path.get(f"f:{depth}:{index}".encode()) == (queue[0] if queue else None)
    assert ranked == {ball for ball, r in records.items() if r.phase == ACTIVE}
    assert queued == {ball for ball, r in records.items() if r.phase == FLAGGED}
    assert known == {ball for ball, r in records.items() if r.phase != SPLIT and r.n}


def _members(member: bytes) -> range:
    if len(member) == 8:
        first, last = struct.unpack(">II", member)
        return range(first, last + 1)
    (ball,) = struct.unpack(">I", member)
    return range(ball, ball + 1)


def _score(record: BallRecord, first: int, confidence: float, *, ranged: bool) -> float:
    if record.n > 0:
        return -(record.total / record.n + record.bias + math.sqrt(confidence / record.n))
    if ranged:
        assert record.selects == 0
        return _FRESH + first
    return (_UNREWARDED if record.selects < 16 else _OVERDUE) + record.selects
