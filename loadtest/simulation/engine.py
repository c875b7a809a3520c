"""The same runs through the engine: steps and store, held to the learner trial by trial.

The runs are tenants of one private store and advance in lock step: one round trip carries a select
of all of them, the next one their rewards. At each trial the engine must play the learner's arm.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from loadtest.progress import Progress
from loadtest.simulation.experiments import Run
from loadtest.simulation.play import Trials
from service.algorithm import learner_for
from service.api.schemas import TenantConfig
from service.embedded import PrivateStore
from service.errors import ZoomingError
from service.splitter import Splitter
from service.store import Store, Tenant, Wanted, new_attempt, new_decision_id

# Invented time: nothing expires while the runs go on.
_NOW_MS = 1_700_000_000_000


class EngineDiffers(ZoomingError):
    """The engine played another arm than the learner."""


def replay(runs: Sequence[Run]) -> None:
    """Plays all runs at once; they must have the same horizon."""
    with (
        TemporaryDirectory(prefix="zooming-simulate-") as folder,
        PrivateStore(Path(folder), appendfsync="everysec") as private,
    ):
        uvloop.run(_replay(runs, private.url))


async def _replay(runs: Sequence[Run], url: str) -> None:
    store = Store(url)
    try:
        fleet = [await Tandem.create(store, run, number) for number, run in enumerate(runs)]
        horizon = runs[0].setting.horizon
        progress = Progress(horizon, things=f"trials of {len(fleet)} runs")
        for trial in range(horizon):
            await _step(store, fleet, trial)
            progress.show(trial + 1)
    finally:
        await store.close()


async def _step(store: Store, fleet: Sequence["Tandem"], trial: int) -> None:
    wanted = [tandem.context_of(trial) for tandem in fleet]
    selected = await store.select_all(wanted, now_ms=_NOW_MS)
    given = []
    for tandem, answer in zip(fleet, selected, strict=True):
        (choice,) = answer.choices
        given.append(tandem.reward_of(trial, arm=choice.arm, ball=choice.ball))
    # A select that finds a ball full has its split made before the next step.
    await _split(fleet, [answer.due for answer in selected])
    rewarded = await store.reward_all(given, now_ms=_NOW_MS, attempt=new_attempt())
    await _split(fleet, [answer.due for answer in rewarded])


async def _split(fleet: Sequence["Tandem"], due: Sequence[int | None]) -> None:
    for tandem, ball in zip(fleet, due, strict=True):
        if ball is not None:
            await tandem.splitter.split(tandem.tenant, ball=ball, wait_seconds=None)


class Tandem:
    """One run, played by a tenant of the engine and by a learner."""

    def __init__(self, run: Run, tenant: Tenant, splitter: Splitter) -> None:
        self.run = run
        self.tenant = tenant
        self.splitter = splitter
        self._environment = run.setting.environment
        trials = Trials.draw(self._environment, horizon=run.setting.horizon, seed=run.seed)
        self._contexts, self._chances = trials.contexts.tolist(), trials.chances.tolist()
        self._learner: Any = learner_for(run.config())
        self._decision_id = ""

    @classmethod
    async def create(cls, store: Store, run: Run, number: int) -> "Tandem":
        """A new tenant, its root split if it needs no samples."""
        settings = TenantConfig.model_validate(run.body()).settings()
        tenant, _ = await store.directory.create(
            f"run-{number}", body_digest="", settings=settings, key_hash="", now_ms=_NOW_MS
        )
        splitter = Splitter(store, clock_ms=lambda: _NOW_MS)
        await splitter.split_new_root(tenant)
        return cls(run, tenant, splitter)

    def context_of(self, trial: int) -> tuple[Tenant, Wanted]:
        """What is to be selected."""
        self._decision_id = new_decision_id(_NOW_MS)
        return self.tenant, Wanted(decision_id=self._decision_id, x=self._contexts[trial])

    def reward_of(self, trial: int, *, arm: int, ball: int) -> tuple[Tenant, str, float]:
        """What is to be rewarded, if the learner plays the same."""
        x = self._contexts[trial]
        decision = self._learner.select(x)
        if (decision.arm, decision.ball.id) != (arm, ball):
            raise EngineDiffers(
                f"{self.run.name}: in trial {trial} the engine plays arm {arm} of ball {ball}, the "
                f"learner arm {decision.arm} of ball {decision.ball.id}."
            )
        mean = float(self._environment.means(x)[arm])
        reward = self._environment.reward_by_chance(mean, self._chances[trial])
        self._learner.reward(decision, reward)
        return self.tenant, self._decision_id, reward
