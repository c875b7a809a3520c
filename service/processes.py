"""How a worker process ends with the supervisor that started it."""

import ctypes
import multiprocessing
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(by: signal.Signals = signal.SIGTERM) -> None:
    """Has this process sent a signal when its supervisor ends, however that ends.

    A supervisor that is killed cannot stop its workers; left behind, they would keep the port. The
    kernel watches the thread that started this process, so that must be one that stays: uvicorn
    starts its workers from the main thread. Call it in the main thread too, for the wish is lost
    with the thread that made it. Nothing happens in a process that multiprocessing did not start,
    or outside Linux.
    """
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(by))
    if os.getppid() != parent.pid:  # it ended before the kernel was asked
        signal.raise_signal(by)
