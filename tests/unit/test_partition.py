"""How the balls of a curve are merged when it has all it may have."""

import random
from itertools import pairwise

from service.algorithm import AdaptiveLearner
from service.algorithm.curve import Ball, Curve
from service.algorithm.intervals import Interval
from service.algorithm.partition import FIRST_DEPTH, MOST_BALLS, Partition
from tests.support.adaptive import learner

CROSSING = 0.937


def cross(made: AdaptiveLearner, *, start: float, trials: int, chance: random.Random) -> float:
    """Plays contexts in a tenth of the range; two straight lines cross at 0.937. The regret."""
    regret = 0.0
    for _ in range(trials):
        x = start + chance.random() / 10
        decision = made.select(x)
        rise = (x - CROSSING) / 2
        mean = 0.5 + (rise if decision.arm == 0 else -rise)
        regret += 0.5 + abs(rise) - mean
        made.reward(decision, mean + chance.gauss(0, 0.01))
    return regret


def full_curve() -> tuple[Partition, Curve]:
    """As many balls as there may be, all as deep as FIRST_DEPTH, of ten rewards each."""
    made = learner(arms=1, noise=0.01, lipschitz=1.0)
    partition = Partition(made.catalogue, made.model)
    places = [Interval(FIRST_DEPTH, index) for index in range(MOST_BALLS)]
    balls = [partition.new_ball(place, 0) for place in places]
    for ball in balls:
        ball.counts, ball.totals, ball.flying = [4.0, 6.0], [1.0, 2.0], [0.0, 1.0]
        ball.mean, ball.ucb = ball.interval.start, 1.0 + ball.interval.start
    return partition, Curve(balls, rewards=1000)


def counted(balls: list[Ball]) -> list[float]:
    """Rewards, their sum, and plays in flight, of all balls."""
    halves = ("counts", "totals", "flying")
    return [sum(sum(getattr(ball, name)) for ball in balls) for name in halves]


def test_contexts_that_move_find_narrow_balls() -> None:
    """Though all balls were spent where contexts had been."""
    made, chance = learner(arms=2, noise=0.01, horizon=20_000), random.Random(0)
    cross(made, start=0.0, trials=4000, chance=chance)
    cross(made, start=0.9, trials=1000, chance=chance)
    assert cross(made, start=0.9, trials=4000, chance=chance) < 4000 * 1e-3
    for curve in made.curves.values():
        assert len(curve.balls) == MOST_BALLS
        assert curve.balls[curve.at(CROSSING)].interval.depth >= FIRST_DEPTH
        ends = [0.0, *(ball.interval.end for ball in curve.balls)]
        assert [ball.interval.start for ball in curve.balls] == ends[:-1]
        assert sum(sum(ball.counts) for ball in curve.balls) == curve.rewards
        in_play = {ball.id for ball in curve.balls}
        assert len(in_play) == MOST_BALLS


def test_the_halves_that_tell_the_least_are_merged_for_the_ball_that_tells_most() -> None:
    """All that they had counted is kept; what they may be worth is the more of the two."""
    partition, curve = full_curve()
    here, left = curve.balls[40], curve.balls[10]
    here.counts, left.counts = [255.0, 256.0], [1.0, 0.0]
    before = counted(curve.balls)
    ball = partition.refine(curve, 40, here.centre)
    assert len(curve.balls) == MOST_BALLS
    assert ball.interval.depth > FIRST_DEPTH
    assert counted(curve.balls) == before
    merged = next(ball for ball in curve.balls if ball.interval.depth < FIRST_DEPTH)
    assert merged.interval == Interval(FIRST_DEPTH - 1, 5)
    assert merged.counts == [1.0, 10.0]
    assert merged.ucb == 1.0 + Interval(FIRST_DEPTH, 11).start
    ids = [ball.id for ball in curve.balls]
    assert len(set(ids)) == MOST_BALLS
    steps = [abs(a.interval.depth - b.interval.depth) for a, b in pairwise(curve.balls)]
    assert max(steps) <= 1
    for at in (left.centre, ball.centre):
        assert partition.best_at(at) is curve.balls[curve.at(at)]


def test_nothing_is_merged_for_a_ball_that_tells_no_more_than_others() -> None:
    """And none is asked before its rewards have doubled."""
    for rewards, is_split in ((15.0, False), (127.0, True), (140.0, False)):
        partition, curve = full_curve()
        curve.balls[40].counts = [rewards, 0.0]
        partition.refine(curve, 40, curve.balls[40].centre)
        assert (partition.splits > 0) == is_split
