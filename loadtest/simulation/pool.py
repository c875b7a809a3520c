"""Plays runs over all cores, with a display of the time left; what is finished stays finished."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from loadtest.simulation.experiments import Run
from loadtest.simulation.play import play
from loadtest.simulation.results import Results
from service.processes import end_with_parent


def play_all(runs: Sequence[Run], results: Results, *, processes: int | None = None) -> None:
    """Plays those of the runs that are not finished yet."""
    missing = [run for run in runs if not results.has(run)]
    # The longest first: a long run begun last would leave the other cores idle.
    missing.sort(key=lambda run: -run.setting.horizon)
    progress = Progress(len(runs), done=len(runs) - len(missing))
    if not missing:
        return
    pool = ProcessPoolExecutor(
        processes or os.cpu_count(), mp_context=get_context("spawn"), initializer=_start
    )
    try:
        futures = {pool.submit(play, run): run for run in missing}
        for future in as_completed(futures):
            results.save(futures[future], future.result())
            progress.step(futures[future].name)
    except KeyboardInterrupt:
        print("\nstopping; what is finished is kept", flush=True)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Ctrl-C goes to all processes of a terminal; the others finish their run and end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)


class Progress:
    """One line, rewritten on a terminal; elsewhere a line for each twentieth."""

    def __init__(self, total: int, *, done: int) -> None:
        self._total = total
        self._done = self._before = done
        self._started = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._shown = 0
        if done:
            print(f"{done} of {total} runs were finished before", flush=True)

    def step(self, what: str) -> None:
        """One more is done."""
        self._done += 1
        twentieth = 20 * self._done // self._total
        if not self._terminal and twentieth == self._shown:
            return
        self._shown = twentieth
        seconds = time.monotonic() - self._started
        left = seconds / (self._done - self._before) * (self._total - self._done)
        line = f"{self._done:>5} of {self._total} runs, {left:4.0f} s left   {what}"
        last = self._done == self._total
        ending = "\r" if self._terminal and not last else "\n"
        print(f"\x1b[K{line}" if self._terminal else line, end=ending, flush=True)
