"""Plays things over all cores, with a display of the time left; what is finished stays so."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from loadtest.progress import Progress
from service.processes import end_with_parent


class Named(Protocol):
    """What can be played; its name tells it from every other."""

    @property
    def name(self) -> str:
        """Fit for the name of a file."""


Thing = TypeVar("Thing", bound=Named)
Thing_contra = TypeVar("Thing_contra", contravariant=True)


class Kept(Protocol[Thing_contra]):
    """What came of the things played, in a folder."""

    def has(self, thing: Thing_contra, /) -> bool:
        """Whether it is finished."""

    def save(self, thing: Thing_contra, outcome: Any, /) -> None:
        """Keeps what came of it."""


def play_all(
    things: Sequence[Thing],
    kept: Kept[Thing],
    *,
    play: Callable[[Thing], Any],
    called: str,
    first: Callable[[Thing], Any],
) -> None:
    """Plays those that are not finished yet, in the order of `first`.

    That is the longest first: a long one begun last would leave the other cores idle.
    """
    missing = sorted((thing for thing in things if not kept.has(thing)), key=first)
    done = len(things) - len(missing)
    if done:
        print(f"{done} of {len(things)} {called} were finished before", flush=True)
    progress = Progress(len(things), things=called, done=done)
    pool = ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_start)
    try:
        futures = {pool.submit(play, thing): thing for thing in missing}
        for number, future in enumerate(as_completed(futures), done + 1):
            thing = futures[future]
            kept.save(thing, future.result())
            progress.show(number, thing.name)
    except KeyboardInterrupt:
        print("\nstopping; what is finished is kept", flush=True)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Ctrl-C goes to all processes of a terminal; the others finish their run and end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)
