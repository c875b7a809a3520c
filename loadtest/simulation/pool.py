"""Plays runs over all cores, with a display of the time left; what is finished stays finished."""

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from loadtest.progress import Progress
from loadtest.simulation.experiments import Run
from loadtest.simulation.play import play
from loadtest.simulation.results import Results
from service.processes import end_with_parent


def play_all(runs: Sequence[Run], results: Results) -> None:
    """Plays those of the runs that are not finished yet."""
    missing = [run for run in runs if not results.has(run)]
    # The longest first: a long run begun last would leave the other cores idle.
    missing.sort(key=lambda run: -run.setting.horizon)
    done = len(runs) - len(missing)
    if done:
        print(f"{done} of {len(runs)} runs were finished before", flush=True)
    progress = Progress(len(runs), things="runs", done=done)
    pool = ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_start)
    try:
        futures = {pool.submit(play, run): run for run in missing}
        for number, future in enumerate(as_completed(futures), done + 1):
            run = futures[future]
            results.save(run, future.result())
            progress.show(number, run.name)
    except KeyboardInterrupt:
        print("\nstopping; what is finished is kept", flush=True)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Ctrl-C goes to all processes of a terminal; the others finish their run and end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)
