"""The steps keep what their headers say, and the layouts agree in both languages."""

import asyncio
import re
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import redis

from service.algorithm import Config, Interval
from service.store import BallRecord, Store, Wanted, keys, steps
from service.store.children import ball_record
from service.store.tenant import LIVE, PAUSED, RETIRED
from tests.support.engine import NOW_MS, Engine, config_of, counters_of, new_engine, new_name
from tests.support.transfer import export, import_file

BODY: dict[str, Any] = {
    "arms": 6,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.1,
    "neighbours": 1,
    "flag_coefficient": 0.01,
}
LEDGER = {"log_entries": 100, "default_reward": 0.5}
VARIADIC = "…"
LUA = Path(str(files("service.store"))) / "lua"
LIBRARIES = sorted((LUA / "lib").rglob("*.lua"))


def text_of(step: str) -> str:
    """The step's own text, without what it includes."""
    return (LUA / f"{step}.lua").read_text()


def header_of(step: str) -> str:
    """The comment at the top."""
    lines = []
    for line in text_of(step).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return "\n".join(lines)


def listed(step: str, label: str) -> list[str]:
    """The numbers of KEYS or ARGV that the header explains."""
    return re.findall(rf"^{label}\[(\d+{VARIADIC}?)\] +\S", header_of(step), re.MULTILINE)


def derived_kinds(step: str) -> set[str]:
    """The kinds of derived keys that the header lists."""
    lines = re.search(r"^Derived +(.+?)^Returns", header_of(step), re.MULTILINE | re.DOTALL)
    return set(lines[1].split()) if lines else set()


def test_every_file_is_a_known_step() -> None:
    """And the other way round."""
    found = {path.name for path in LUA.iterdir() if path.is_file()}
    assert found == {f"{step}.lua" for step in steps.STEPS}


@pytest.mark.parametrize("step", steps.STEPS)
def test_header_explains_every_argument_and_the_body_names_it(step: str) -> None:
    """Each KEYS and ARGV gets a named local at once."""
    header, body = header_of(step), text_of(step)
    assert "Returns " in header
    assert "Cost " in header
    for label in ("KEYS", "ARGV"):
        numbers = listed(step, label)
        assert numbers == [str(n) + (VARIADIC if VARIADIC in numbers[n - 1] else "")
                           for n in range(1, len(numbers) + 1)]  # fmt: skip
        plain = {number for number in numbers if VARIADIC not in number}
        named = set(re.findall(rf"^local \w+ = (?:[\w.]+\()?{label}\[(\d+)\]\)?$", body, re.M))
        assert named == plain, label
        assert set(re.findall(rf"{label}\[(\d+)\]", body.replace(header, ""))) <= plain


@pytest.mark.parametrize("step", steps.STEPS)
def test_step_is_short(step: str) -> None:
    """About 120 lines at the most."""
    assert len(text_of(step).splitlines()) <= 120


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: str(path.relative_to(LUA / "lib")))
def test_library_is_short_and_part_of_some_step(library: Path) -> None:
    """Little longer than a step; one that a rule has belongs to steps of that rule."""
    text = library.read_text()
    assert len(text.splitlines()) <= 130
    rules = [rule for rule in steps.RULES if library.parent.name in {rule, "lib"}]
    assert any(text in steps.function_of(step, rule).text for step in steps.STEPS for rule in rules)


@pytest.mark.parametrize(
    "path", [*LUA.glob("*.lua"), *LIBRARIES], ids=lambda path: str(path.relative_to(LUA))
)
def test_file_includes_just_what_it_uses(path: Path) -> None:
    """No more, since the store keeps all of it; no less, which no linter can see."""
    first, _, text = path.read_text().partition("\n")
    included = first.removeprefix("-- include:").split() if "include:" in first else []
    code = re.sub(r"--.*", "", text)
    itself = {path.stem} if path in LIBRARIES else set()
    names = {library.stem for library in LIBRARIES} - itself
    used = {name for name in names if re.search(rf"(?<![\w.\"]){name}\.\w", code)}
    assert set(included) == used


def test_the_steps_touch_just_the_keys_that_their_headers_list(
    store_url: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watched on a life from creation to deletion, with late rewards and splits in it."""
    given: dict[str, set[int]] = defaultdict(set)
    call = steps.call

    async def watched(client: Any, step: str, *, args: tuple[Any, ...], **more: Any) -> list[Any]:
        given[step].add(len(args))
        return await call(client, step, args=args, **more)

    monkeypatch.setattr(steps, "call", watched)
    with raw.monitor() as monitor:
        asyncio.run(_whole_life(store_url))
        raw_end = redis.Redis.from_url(store_url)
        raw_end.echo("end of the watch")
        raw_end.close()
        touched = _touched_kinds(monitor)
    assert set(touched) == set(steps.STEPS)
    wrong = {
        step: touched[step] ^ derived_kinds(step)
        for step in steps.STEPS
        if touched[step] != derived_kinds(step)
    }
    assert not wrong
    for step in steps.STEPS:
        numbers = listed(step, "ARGV")
        if VARIADIC in numbers[-1]:
            assert min(given[step]) >= len(numbers) - 1
        else:
            assert given[step] == {len(numbers)}, f"{step} is called with {given[step]} arguments"


def _touched_kinds(monitor: Any) -> dict[str, set[str]]:
    touched: dict[str, set[str]] = defaultdict(set)
    step = ""
    for line in monitor.listen():
        command = line["command"]
        if "end of the watch" in command:
            return touched
        if line["client_type"] == "lua":
            # The tenant's hash and the lists of tenants and deletions are declared, in KEYS.
            kinds = re.findall(r"zooming:\{[^}]+\}:\w+:(\w+)", command)
            touched[step].update(kinds)
        elif called := re.match(r"FCALL zooming_(\w+)_[0-9a-f]{16} ", command):
            step = called[1]
            touched[step].update()
    raise AssertionError("the watch never ended")


async def _play_a_curve(store: Store) -> None:
    """A tenant of the preset `adaptive`, until all its arms are tried."""
    made = await new_engine(store, {"arms": 3} | LEDGER)
    learning = await new_engine(store, {"arms": 1, "context_scale": {"kind": "auto"}})
    wanted = Wanted(decision_id="first", x=0.5, raw=7.0)
    await store.select(learning.tenant, wanted, now_ms=NOW_MS)
    await made.change_arm(2, PAUSED)
    await made.add_arm("another")
    for trial in range(20):
        played = await made.select(trial / 20)
        await made.reward(played.decision_id, 0.5)
    await made.change_arm(2, LIVE)
    await made.select(0.5, eligible=[2])
    await made.add_arm("one more")
    await _end_decisions(made)
    for state in (PAUSED, LIVE, RETIRED):
        await made.change_arm(1, state)
    await made.select(0.5)
    await store.directory.delete(made.tenant.name, incarnation=made.tenant.incarnation)


async def _end_decisions(made: Engine) -> None:
    """Some are censored, the others wait until all is over and forgotten; arms come and go."""
    censored = [await made.select(trial / 20, decision_id=f"c{trial}") for trial in range(20)]
    await made.change_arm(0, PAUSED)
    for trial in range(120):
        played = await made.select(trial / 120)
        await made.reward(played.decision_id, 0.5)
    for played in censored:
        await made.store.censor(made.tenant, decision_id=played.decision_id, now_ms=made.clock[0])
    await _let_expire(made)


async def _let_expire(made: Engine) -> None:
    """Nobody is rewarded, until all is over and forgotten."""
    for trial in range(40):
        await made.select(trial / 40)
    made.clock[0] += 1000 * 3600 * 24
    await made.close_all()


async def _whole_life(url: str) -> None:
    store = Store(url)
    try:
        await _play_a_curve(store)
        made = await new_engine(store, BODY | LEDGER)
        late = []
        # A full ball whose split is left to the select that meets it.
        for _ in range(BODY["arms"]):
            played = await made.select_only(0.5)
            await store.reward(
                made.tenant, decision_id=played.decision_id, reward=0.5, now_ms=NOW_MS
            )
        for trial in range(60):
            selected = await made.select(trial / 60, decision_id=f"mine-{trial}")
            if trial % 3:
                await made.reward(selected.decision_id, 0.5)
            else:
                late.append(selected.decision_id)
        for decision_id in late:
            await made.reward(decision_id, 0.4)
        await counters_of(store, made.tenant)
        await store.directory.revise(made.tenant, settings={"log_entries": 0}, now_ms=NOW_MS)
        copied = await import_file(store, new_name(), await export(store, made.tenant))
        for tenant in (made.tenant, copied):
            await store.directory.delete(tenant.name, incarnation=tenant.incarnation)
        for state in (PAUSED, RETIRED):
            made = await new_engine(store, BODY | {"arms": 2})
            await made.reward((await made.select(0.5)).decision_id, 0.5)
            await made.change_arm(0, RETIRED)
            await made.change_arm(1, state)
        await _retire_all(await new_engine(store, BODY | LEDGER | {"patience": 100}))
    finally:
        await store.close()


async def _retire_all(made: Engine) -> None:
    """The decisions end, then the arms leave one after the other, from balls of every kind."""
    await made.add_arm("another")
    await made.select(0.5, eligible=[made.tenant.arms["another"]])
    for arm in (3, 4, 5):
        await made.change_arm(arm, PAUSED)
    for _ in range(4):
        await _let_expire(made)
    await _end_decisions(made)
    await made.select(0.5, eligible=[1])
    await made.change_arm(0, LIVE)
    for arm in range(BODY["arms"]):
        await made.change_arm(arm, RETIRED)
        for trial in range(10):
            await made.select(trial / 10)


def test_records_read_and_write_alike_in_both_languages(raw: "redis.Redis") -> None:
    """A record packed by one side comes back unchanged through the other."""
    config = config_of(BODY)
    assert isinstance(config, Config)
    record = ball_record(config, Interval(3, 5), arms=4)
    record.n, record.selects, record.cursor, record.asked, record.samples = 11, 12, 3, 2, 13
    record.filled, record.total, record.first, record.left, record.right = 1.5, 1 / 3, 14, 15, 16
    # Only the libraries of `select`, then a body of our own.
    library = steps.libraries("select")
    body = (
        'local base = KEYS[1]\nredis.call("HSET", key.balls(base), 9, ARGV[1])\n'
        "ball.save(base, ball.load(base, 9))\n"
        'return redis.call("HGET", key.balls(base), 9)'
    )
    try:
        returned = raw.eval(f"{library}\n{body}", 1, "scratch:", record.pack())
    finally:
        raw.delete(keys.derived("scratch:", "balls"))
    assert BallRecord.unpack(returned) == record
