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
from service.store.records import ACTIVE, ASLEEP, FLAGGED, SPLIT, BallRecord, DecisionRecord
from service.store.tenant import LIVE, RETIRED
from tests.support.audit_catalogue import Catalogue
from tests.support.audit_curves import audit_curves
from tests.support.audit_path import check_path

# Any: the library's types do not know that replies are bytes unless decoding is asked for.
RawClient = Any
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
        if text == keys.CLOSER:
            continue
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
        open_plays = Counter(d.arm for d in decisions if d.state == "open" and not d.holdout)
        audit_curves(client, state, base, open_plays=open_plays)
        return
    records = {
        int(ball): BallRecord.unpack(packed)
        for ball, packed in client.hgetall(keys.derived(base, "balls")).items()
    }
    catalogue = Catalogue.read(client, state, base)
    reachable = _reachable(records, roots=catalogue.roots)
    there = [ball for ball, record in reachable.items() if record.phase != SPLIT]
    packed_arms = client.mget([keys.derived(base, "arms", ball) for ball in there])
    arms = {ball: list(_unpack_arms(p)) for ball, p in zip(there, packed_arms, strict=True)}
    _check_partition(reachable, arms, catalogue)
    _check_counters(state, reachable, client, base)
    _check_rankings(client, base, reachable, float(state["confidence"]))
    for ball, record in reachable.items():
        if record.phase == FLAGGED and record.k:
            limit = int(state["patience"]) * record.k * int(state["buckets"])
            live = np.array([catalogue.states[arm] == LIVE for arm in arms[ball]])
            _check_cells(
                client, base, ball, record, buckets=int(state["buckets"]), limit=limit, live=live
            )


def _check_cells(
    client: RawClient,
    base: str,
    ball: int,
    record: BallRecord,
    *,
    buckets: int,
    limit: float,
    live: Any,
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
    wanted = (full < buckets) & (issued < limit) & live
    bits = np.frombuffer(client.get(keys.derived(base, "asked", ball)), np.uint8)
    assert np.array_equal(np.unpackbits(bits)[: record.arms], wanted)
    assert record.asked == wanted.sum()


def _unpack_arms(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def _reachable(records: dict[int, BallRecord], *, roots: set[int]) -> dict[int, BallRecord]:
    """The roots and what was published below them; staged children of a dead claim are not."""
    found = {root: records[root] for root in roots}
    for ball in sorted(records):
        if ball in found:
            found.update({child: records[child] for child in records[ball].children})
    return found


def _check_partition(
    records: dict[int, BallRecord], arms: dict[int, list[int]], catalogue: Catalogue
) -> None:
    tiles: dict[int, list[tuple[float, float]]] = {}
    for ball, members in arms.items():
        assert members == sorted(set(members)), f"ball {ball}: arms out of catalogue order"
        assert len(members) == records[ball].arms
        interval = records[ball].interval
        states = {catalogue.states[arm] for arm in members}
        assert states != {RETIRED}, f"ball {ball} is empty"
        assert (records[ball].phase == ASLEEP) <= (LIVE not in states), f"ball {ball} sleeps"
        for arm in members:
            if catalogue.states[arm] != RETIRED:
                tiles.setdefault(arm, []).append((interval.start, interval.end))
    assert sorted(tiles) == catalogue.kept, "some arm is in no ball"
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
    assert counter("active") == phases[ACTIVE] + phases[ASLEEP]
    waiting = set(map(int, client.zrange(keys.derived(base, "waiting"), 0, -1)))
    assert waiting == {ball for ball, record in records.items() if record.phase == FLAGGED}
    flagged = [record for record in records.values() if record.phase == FLAGGED]
    owed = [min(r.k * counter("buckets") * r.arms, 2**40) for r in flagged]
    assert counter("cells_owed") == sum(owed)
    assert counter("cells_filled") == sum(record.filled for record in flagged)
    assert counter("splits") == sum(len(record.children) > 0 for record in records.values())
    depths = Counter(r.depth for r in records.values() if r.phase in (ACTIVE, ASLEEP))
    deepest = max(record.depth for record in records.values())
    assert counter("depth") == deepest
    for depth in range(deepest + 1):
        assert counter(f"clusters_{depth}") == depths[depth]
    credited = sum(record.n + record.samples for record in records.values())
    given = counter("rewards_applied") + counter("rewards_defaulted")
    assert given == credited, "a reward was lost or counted twice"


def _check_decisions(state: dict[str, bytes], client: RawClient, base: str) -> list[DecisionRecord]:
    """The ledger and the counters agree with the decisions, which are returned."""

    def counter(name: str) -> int:
        return int(state.get(name, 0))

    slots = list(client.scan_iter(f"{base}decisions:*", count=1000))
    decisions = [DecisionRecord.unpack(value) for slot in slots for value in client.hvals(slot)]
    listed = {member.decode() for member in client.zrange(keys.derived(base, "slots"), 0, -1)}
    assert listed == {slot.decode().rpartition(":")[2] for slot in slots}
    states = Counter(decision.state for decision in decisions)
    trials = sum(counter(f"trials_{phase}") for phase in ("active", "flagged", "holdout"))
    if trials > len(decisions):
        return decisions  # some are past their retention, and forgotten
    given = sum(counter(f"rewards_{outcome}") for outcome in ("applied", "defaulted", "holdout"))
    assert states["rewarded"] + states["defaulted"] == given
    assert len(decisions) == trials
    _check_ledger(client.get(keys.derived(base, "ledger")) or b"", decisions, state)
    learned = [d.reward or 0.0 for d in decisions if d.reward is not None and not d.holdout]
    assert math.isclose(
        struct.unpack("<ddd", state["sums"])[0], sum(learned), rel_tol=1e-9, abs_tol=1e-9
    )
    return decisions


def _check_ledger(ledger: bytes, decisions: list[DecisionRecord], state: dict[str, bytes]) -> None:
    """Each section that is in the ring has its decisions counted."""
    section_ms, closed = int(state["section_ms"]), ("rewarded", "defaulted", "censored")
    issued = Counter(d.at_ms // section_ms for d in decisions)
    ended = Counter((d.at_ms // section_ms, d.state) for d in decisions)
    whole = ledger.ljust(-(-len(ledger) // 24) * 24, b"\0")
    sections = list(struct.iter_unpack(">qIIII", whole))
    assert all(issued[section] == count for section, count, *_ in sections)
    for section, _, *counts in sections:
        assert counts == [ended[section, name] for name in closed]
    newest = max(issued, default=0)
    assert {s for s in issued if s > newest - len(sections)} <= {s for s, *_ in sections}


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
