"""The engine plays the preset `adaptive` as its learner does, number for number, at store level."""

import asyncio
import random
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from service.algorithm import AdaptiveLearner
from service.algorithm.curve import Curve
from service.algorithm.model import FEW_REWARDS, FLATTEST_OF_FEW
from service.store import ModelRecord, Store, keys
from service.store.records import CurveRecord
from tests.support import plays as drawn
from tests.support.engine import (
    RewardOf,
    any_reward,
    learner_for,
    new_engine,
    play_in_tandem,
    zero_or_one,
)
from tests.support.plays import on_a_store

LEARNED = (
    "binary",
    "variance",
    "loudest",
    "evidence",
    "squares",
    "shown_lipschitz",
    "horizon",
    "steepness",
    "bent_at",
    "bend_squares",
    "bends_known",
)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Few and many arms, told much or nothing."""
    body: dict[str, Any] = {"arms": draw(st.integers(1, 9))}
    optional = {
        "noise": st.sampled_from([0.0, 1e-5, 0.3, 5.0, "auto"]),
        "horizon": st.integers(2, 10**6),
        "lipschitz": st.sampled_from([0.1, 1.0, 30.0, "auto"]),
        "confidence_coefficient": st.floats(0, 3),
        "max_depth": st.integers(1, 12),
        "reward_range": st.sampled_from([[0.0, 1.0], [-3.0, 7.0], [0.1, 0.3]]),
    }
    for name, values in optional.items():
        if draw(st.booleans()):
            body[name] = draw(values)
    return body


@on_a_store(examples=40)
@given(
    body=configurations(),
    plays=drawn.plays,
    chance=st.randoms(use_true_random=False),
    delays=drawn.delays,
    reward_of=st.sampled_from([any_reward, zero_or_one]),
)
def test_any_configuration_any_order_of_rewards(
    store_url: str,
    body: dict[str, Any],
    plays: list[float],
    chance: random.Random,
    delays: str,
    reward_of: RewardOf,
) -> None:
    """Same arm, ball and phase in every trial, and in the end the same numbers in every ball."""
    asyncio.run(check_play(store_url, body, plays * 3, chance, delays, reward_of))


@pytest.mark.parametrize("noise", ["auto", 0.05])
def test_a_longer_play_through_many_steps(store_url: str, noise: object) -> None:
    """Noise and horizon are learned, so all bounds move several times, and curves are stale."""
    chance = random.Random(0)
    plays = [chance.random() for _ in range(1500)]
    learner = asyncio.run(
        check_play(store_url, {"arms": 40, "noise": noise}, plays, chance, "lost")
    )
    assert learner.model.step >= 4
    assert learner.splits >= 100


def test_a_longer_play_of_few_flat_arms(store_url: str) -> None:
    """They may be taken for flat only after some thousand rewards."""

    def flat(chance: random.Random, _: float) -> float:
        return chance.gauss(0.5, 0.1)

    chance = random.Random(0)
    plays = [chance.random() for _ in range(FEW_REWARDS + 500)]
    body = {"arms": 3, "noise": 0.1}
    learner = asyncio.run(check_play(store_url, body, plays, chance, "late", flat))
    assert learner.model.steepness < FLATTEST_OF_FEW


@pytest.mark.parametrize("noise", [0.01, "auto"])
def test_a_longer_play_whose_contexts_move(store_url: str, noise: float | str) -> None:
    """Curves that have all their balls where contexts were give some back for where they are."""

    def rising(chance: random.Random, x: float) -> float:
        return x + chance.gauss(0, 0.01)

    chance = random.Random(0)
    plays = [place + chance.random() / 10 for place in (0.0, 0.9, 0.4) for _ in range(700)]
    body = {"arms": 2, "noise": noise}
    learner = asyncio.run(check_play(store_url, body, plays, chance, "late", rising))
    halved = learner.size - len(learner.curves)
    assert learner.splits > halved + 20


def test_a_curve_that_runs_out_of_balls_within_a_reward(store_url: str) -> None:
    """A half that is still too wide gets no room before its own rewards double."""
    chance = random.Random(71)  # a life in which another half would have given way
    trials = [
        (place + chance.random() / 10, chance.gauss(0, 0.001))
        for place in (0.0, 0.9, 0.4)
        for _ in range(200)
    ]
    noise = iter([noise for _, noise in trials])

    def rising(_: random.Random, x: float) -> float:
        return x + next(noise)

    plays = [x for x, _ in trials]
    asyncio.run(check_play(store_url, {"arms": 1}, plays, chance, "in step", rising))


def test_a_longer_play_of_steep_curves(store_url: str) -> None:
    """Noise hides how steep they are, and bends tell."""

    def steep(chance: random.Random, x: float) -> float:
        return abs(1 - 8 * x % 2) + chance.gauss(0, 0.15)

    chance = random.Random(0)
    plays = [chance.random() for _ in range(1500)]
    body = {"arms": 20, "noise": 0.15}
    learner = asyncio.run(check_play(store_url, body, plays, chance, "late", steep))
    assert learner.model.shown_lipschitz > 1


@pytest.mark.parametrize("noise", [0.5, "auto"])
def test_a_longer_play_of_0_and_1(store_url: str, noise: float | str) -> None:
    """The noise of a ball depends on what is known of its mean."""
    chance = random.Random(0)
    plays = [chance.random() for _ in range(1500)]
    learner = asyncio.run(
        check_play(store_url, {"arms": 10, "noise": noise}, plays, chance, "late", zero_or_one)
    )
    assert learner.model.binary
    assert learner.model.steepness != 1
    noises = [
        learner.model.noise(ball) for curve in learner.curves.values() for ball in curve.balls
    ]
    assert min(noises) < 0.1
    assert max(noises) > 0.2


async def check_play(
    url: str,
    body: dict[str, Any],
    plays: list[float],
    chance: random.Random,
    delays: str,
    reward_of: RewardOf = any_reward,
) -> AdaptiveLearner:
    """Plays all contexts; each step, some of the rewards that are due are handed in."""
    store = Store(url)
    try:
        made = await new_engine(store, body)
        learner: AdaptiveLearner = learner_for(body)
        await play_in_tandem(made, learner, plays, chance, delays, reward_of)
        partition = await store.partition(made.tenant)
    finally:
        await store.close()
    found = {ball.id: (ball.interval, ball.arms, ball.ucb) for ball in partition if ball.id}
    mine = [ball for curve in learner.curves.values() for ball in curve.balls]
    assert found == {ball.id: (ball.interval, [ball.arm], ball.ucb) for ball in mine}
    assert len(partition) == learner.size
    with redis.Redis.from_url(url) as client:
        model = ModelRecord.unpack(client.hget(keys.tenant(made.tenant.name), "model"))
        names = [keys.derived(made.tenant.base, "curve", arm) for arm in learner.curves]
        records = [CurveRecord.unpack(client.get(name)) for name in names]
    assert (model.step, model.tried) == (learner.model.step, len(learner.curves))
    for name in LEARNED:
        assert getattr(model, name) == getattr(learner.model, name), name
    for record, curve in zip(records, learner.curves.values(), strict=True):
        assert_same_curve(record, curve)
    return learner


def assert_same_curve(record: CurveRecord, curve: Curve) -> None:
    """Every number that the store has of an arm is the learner's."""
    for name in ("step", "rewards", "news", "drift"):
        assert getattr(record, name) == getattr(curve, name)
    assert (record.bend_square, record.bend_known) == (curve.bends.square, curve.bends.known)
    for stored, ball in zip(record.balls, curve.balls, strict=True):
        assert (stored.mean, stored.variance) == (ball.mean, ball.variance)
        assert [stored.count_left, stored.count_right] == ball.counts
        assert [stored.total_left, stored.total_right] == ball.totals
        assert [stored.flying_left, stored.flying_right] == ball.flying
