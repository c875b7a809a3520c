"""The service from end to end, as a new user meets it. Reads as a tutorial."""

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.support.servers import descendants, is_running, running_service, wait_for

COLOURS = ["red", "green", "blue"]
BEST = {"red": 0.2, "green": 0.5, "blue": 0.8}


def clicks(colour: str, mood: float, chance: random.Random) -> float:
    """The nearer a colour is to the mood, the more people like it."""
    return 1 - abs(BEST[colour] - mood) + chance.gauss(0, 0.05)


def test_a_shop_learns_which_colour_goes_with_which_mood(tmp_path: Path) -> None:
    """A tenant, some traffic, what was learned; then the service is stopped and started again."""
    chance = random.Random(0)
    with running_service(tmp_path) as service:
        # Create a tenant: three arms, nothing said about them but their names.
        created = service.client.put("/tenants/shop", json={"arms": COLOURS})
        assert created.status_code == 201
        assert created.json()["api_key"]

        # Ask for the arm to play, play it, report what came of it.
        earned = []
        for _ in range(600):
            mood = chance.random()
            chosen = service.client.post("/select", json={"tenant": "shop", "context": mood}).json()
            reward = clicks(chosen["arm"], mood, chance)
            answer = service.client.post(
                "/reward",
                json={"tenant": "shop", "decision_id": chosen["decision_id"], "reward": reward},
            )
            assert answer.json()["status"] == "applied"
            earned.append(reward)

        # It soon earns nearly all there is to earn; a random arm earns 0.7 on average.
        assert sum(earned[-200:]) / 200 > 0.88

        # The partition shows what it believes: the best ball at each mood is of the right colour.
        balls = service.client.get("/tenants/shop/partition").json()["balls"]
        for colour, mood in BEST.items():
            here = [b for b in balls if b["interval"][0] <= mood < b["interval"][1] and b["n"]]
            assert colour in max(here, key=lambda ball: float(ball["mean"]))["arms"]

        before = service.client.get("/tenants/shop").json()
        assert before["counters"]["rewards_applied"] == 600

    # Stopped and started again on the same folder, it knows all that it knew.
    with running_service(tmp_path) as service:
        assert service.client.get("/tenants/shop").json() == before
        assert service.client.get("/tenants/shop/partition").json()["balls"] == balls


def test_the_demo_shows_what_was_learned_and_leaves_nothing_behind() -> None:
    """`zooming demo --exit`, shortened."""
    environment = {name: value for name, value in os.environ.items() if "ZOOMING_" not in name}
    command = [sys.executable, "-m", "service", "demo", "--exit", "--trials", "400", "--port", "0"]
    family: set[int] = set()
    lines = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            family.update(descendants(process.pid))
    assert process.returncode == 0
    assert len(family) >= 2, "the service and its store"
    wait_for(lambda: not any(is_running(pid) for pid in family), what="the end of the demo")
    shown = "".join(lines)
    for expected in ("400 of 400 trials", "average reward", "a random arm", "the optimum"):
        assert expected in shown
    assert sum(line.startswith("  19 |") for line in lines) == 2, "two pictures"
