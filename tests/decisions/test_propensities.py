"""Arms are chosen with just the probabilities that the answers tell.

Where it is known which arm is the best one, the probability of every answer is computed here anew,
and held against what was told (exactly) and how often it came (by a chi-square test).
Everywhere, the sum of 1 / propensity is on average the number of arms. The generator is seeded, so
the bounds, which a right service would miss once in a million times, are never missed by chance.
"""

import asyncio
import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

import pytest

from service.store import PAUSED, Selected, Wanted, keys, new_decision_id
from service.store.records import BallRecord
from tests.support.engine import Engine, engine

ARMS, X = 5, 0.3
# Each arm is a ball of its own, active from the start; without rewards no bound moves.
STILL: dict[str, Any] = {
    "arms": ARMS,
    "preset": "simulation",
    "horizon": 1000,
    "noise": 0.1,
    "similarity": {"kind": "none"},
}
# Best first, by their rewards.
ORDER = [2, 0, 4, 1, 3]
AT_ONCE = 1000
DEVIATIONS = 4.9  # of a normal distribution: once in a million


async def selected(made: Engine, wanted: Sequence[dict[str, Any]]) -> list[Selected]:
    """What is answered to each, in batches."""
    found: list[Selected] = []
    for start in range(0, len(wanted), AT_ONCE):
        calls = [
            (made.tenant, Wanted(decision_id=new_decision_id(made.clock[0]), **one))
            for one in wanted[start : start + AT_ONCE]
        ]
        found += await made.store.select_all(calls, now_ms=made.clock[0])
    return found


async def teach(made: Engine) -> None:
    """Each arm's reward tells its place in the order."""
    for place, arm in enumerate(ORDER):
        played = await made.select(X, eligible=[arm])
        await made.reward(played.decision_id, 1 - place / ARMS)


def probability(ranking: Sequence[int], best_first: Sequence[int], h: float, f: float) -> float:
    """How likely the ranking is, for a holdout of h and a floor of f."""
    left = list(best_first)
    uniform = by_rule = 1.0
    for arm in ranking:
        uniform /= len(left)
        by_rule *= f / len(left) + (1 - f) * (arm == left[0])
        left.remove(arm)
    return h * uniform + (1 - h) * by_rule


def chi_square_bound(freedom: int) -> float:
    """Wilson and Hilferty's."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + DEVIATIONS * math.sqrt(spread)) ** 3


@pytest.mark.parametrize(
    "trials, n, h, f, eligible, paused",
    [
        pytest.param(10_000, 1, 0.0, 0.2, None, [], id="floor"),
        pytest.param(3000, 1, 0.3, 0.1, None, [], id="holdout"),
        pytest.param(2000, 1, 0.0, 1.0, None, [], id="all uniform"),
        pytest.param(3000, 1, 0.1, 0.4, [0, 1, 3], [], id="eligible"),
        pytest.param(3000, 1, 0.1, 0.4, None, [2, 3], id="paused"),
        pytest.param(3000, 1, 0.2, 0.2, [0, 1, 2, 4], [2], id="eligible and paused"),
        pytest.param(5000, 2, 0.0, 0.3, None, [], id="ranking"),
        pytest.param(3000, 2, 0.5, 0.0, None, [4], id="ranking and holdout"),
        pytest.param(2500, 3, 0.3, 0.3, [0, 1, 2, 3], [1], id="ranking of all"),
        pytest.param(1000, 9, 0.2, 0.5, [3, 4], [], id="ranking of fewer than wanted"),
    ],
)
def test_frequencies(
    store_url: str,
    trials: int,
    n: int,
    h: float,
    f: float,
    eligible: list[int] | None,
    paused: list[int],
) -> None:
    """Of each arm, or each ranking."""
    random.seed(f"{trials} {n} {h} {f}")
    playable = [arm for arm in ORDER if arm in (eligible or ORDER) and arm not in paused]

    async def run() -> list[Selected]:
        async with engine(store_url, STILL) as made:
            await teach(made)
            for arm in paused:
                await made.change_arm(arm, PAUSED)
            await made.store.directory.revise(
                made.tenant, settings={"holdout": h, "exploration_floor": f}, now_ms=made.clock[0]
            )
            await made.refresh()
            before = await made.store.partition(made.tenant)
            wanted = {"x": X, "n": n, "eligible": sorted(playable) if eligible else None}
            found = await selected(made, [wanted] * trials)
            assert await made.store.partition(made.tenant) == before, "the state is not still"
            return found

    answers = Counter(
        (tuple(c.arm for c in answer.choices), tuple(c.propensity for c in answer.choices))
        for answer in asyncio.run(run())
    )
    check(answers, playable, n=n, h=h, f=f)


# A ball of three arms: its number, and the tenant that has it at the context.
SHARED: dict[str, tuple[int, dict[str, Any]]] = {
    "active": (1, {"similarity": {"kind": "features", "features": [[0.0]] * 3}}),
    "flagged": (0, {"similarity": {"kind": "learned"}, "neighbours": 10**6}),
}


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("n", [2, 3])
def test_frequencies_in_a_ball_of_several_arms(store_url: str, raw: Any, kind: str, n: int) -> None:
    """They take turns, so all is counted from the arm whose turn it is; holdouts do not move it."""
    random.seed(f"{kind} {n}")
    ball, config = SHARED[kind]
    body = STILL | config | {"arms": 3, "holdout": 0.5, "exploration_floor": 0.5}

    async def run() -> Counter[tuple[Any, Any]]:
        answers: Counter[tuple[Any, Any]] = Counter()
        async with engine(store_url, body) as made:
            for _ in range(1200):
                record = raw.hget(keys.derived(made.tenant.base, "balls"), ball)
                turn = BallRecord.unpack(record).cursor
                (answer,) = await selected(made, [{"x": X, "n": n}])
                assert {choice.ball for choice in answer.choices} == {ball}
                ranking = tuple((choice.arm - turn) % 3 for choice in answer.choices)
                answers[ranking, tuple(choice.propensity for choice in answer.choices)] += 1
        return answers

    check(asyncio.run(run()), range(3), n=n, h=0.5, f=0.5)


def check(
    answers: Counter[tuple[Any, Any]], best_first: Sequence[int], *, n: int, h: float, f: float
) -> None:
    """How often each ranking came, and what was told of it, against the truth."""
    counts = Counter({ranking: count for (ranking, _), count in answers.items()})
    trials = counts.total()
    assert len(counts) == len(answers), "the same ranking was told another propensity"
    for ranking, told in answers:
        for place in range(1, len(ranking) + 1):
            truth = probability(ranking[:place], best_first, h, f)
            assert math.prod(told[:place]) == pytest.approx(truth, rel=1e-12)

    places = min(n, len(best_first))
    expected = {
        ranking: probability(ranking, best_first, h, f) * trials
        for ranking in itertools.permutations(best_first, places)
    }
    assert sum(expected.values()) == pytest.approx(trials)
    assert counts.keys() <= {ranking for ranking, count in expected.items() if count}
    terms = [(counts[r] - count) ** 2 / count for r, count in expected.items() if count]
    assert min(count for count in expected.values() if count) > 20, "too few for the test"
    assert sum(terms) < chi_square_bound(len(terms) - 1)


@pytest.mark.parametrize("preset", ["adaptive", "simulation"])
def test_one_over_the_propensity_adds_up_to_the_arms(store_url: str, preset: str) -> None:
    """While it learns: rewards come in, balls split, other arms are eligible each time."""
    body: dict[str, Any] = {"arms": ARMS, "preset": preset, "exploration_floor": 0.3}
    if preset == "simulation":
        body = STILL | {"similarity": {"kind": "learned"}, "neighbours": 1} | body
    random.seed(0)

    async def run() -> list[float]:
        surplus = []
        async with engine(store_url, body | {"holdout": 0.25}) as made:
            for _ in range(40):
                wanted: list[dict[str, Any]] = []
                for _ in range(40):
                    eligible = sorted(random.sample(range(ARMS), random.randint(1, ARMS)))
                    wanted.append({"x": random.random(), "eligible": eligible, "n": 2})
                answers = await selected(made, wanted)
                for one, answer in zip(wanted, answers, strict=True):
                    weights = [1 / choice.propensity for choice in answer.choices]
                    arms = len(one["eligible"])
                    surplus.append(weights[0] - arms)
                    if arms > 1:
                        surplus.append(math.prod(weights) - arms * (arms - 1))
                    await made.reward(answer.choices[0].decision_id, random.random())
        return surplus

    surplus = asyncio.run(run())
    deviation = stdev(surplus) / math.sqrt(len(surplus))
    assert abs(mean(surplus)) < DEVIATIONS * deviation
    assert deviation < 0.2, "too few to tell"


@pytest.mark.parametrize("share", ["exploration_floor", "holdout"])
def test_a_single_arm_is_certain(store_url: str, share: str) -> None:
    """Whatever led to it."""

    async def run() -> None:
        async with engine(store_url, STILL | {share: 0.3}) as made:
            answers = await selected(made, [{"x": X, "eligible": [3]}] * 50)
            told = {(c.arm, c.propensity) for answer in answers for c in answer.choices}
            assert told == {(3, 1.0)}

    asyncio.run(run())
