"""The processes of a load test, seen from the one that leads them.

Each is started anew (spawn), waits for the common start, hands over a tally several times a second,
and ends with the leader, however that ends.
"""

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Self

import uvloop

from loadtest.plan import Access, Plan
from loadtest.replay import Replay
from loadtest.tally import FLUSH_SECONDS, Tally
from service.errors import ZoomingError
from service.processes import end_with_parent

START_SECONDS = 60.0
_READY, _STOP, _DONE = "ready", "stop", "done"
# Time for the word to reach every process before the first trial is due.
_HEAD_START_SECONDS = 0.05


class CrewFailure(ZoomingError):
    """A process of the load test ended before its work was done."""


class Crew:
    """Processes that replay their shares of a plan."""

    def __init__(self, plan: Plan, *, tenants: Sequence[Access]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._members = []
        for process in range(plan.processes):
            ours, theirs = context.Pipe()
            member = context.Process(target=_work, args=(plan, process, tenants, theirs))
            _start_deaf(member)
            theirs.close()  # so that the end of the process is the end of the pipe
            self._members.append(member)
            self._pipes.append(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member, pipe in zip(self._members, self._pipes, strict=True):
            if kind is not None:
                member.kill()
            member.join()
            pipe.close()

    def start(self) -> float:
        """Starts all at once; the time of the monotonic clock at which the first trial may be."""
        deadline = time.monotonic() + START_SECONDS
        for pipe in self._pipes:
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                raise CrewFailure(f"A process did not start within {START_SECONDS:.0f} seconds.")
            self._receive(pipe)
        start = time.monotonic() + _HEAD_START_SECONDS
        for pipe in self._pipes:
            pipe.send(start)
        return start

    def stop(self) -> None:
        """Has them end soon, with what is under way."""
        for pipe in self._pipes:
            try:
                pipe.send(_STOP)
            except BrokenPipeError:  # it is done already
                continue

    def tallies(self) -> Iterator[Tally | None]:
        """What they hand over, until all are done; `None` when nothing came for a while."""
        working = list(self._pipes)
        while working:
            ready = wait(working, timeout=FLUSH_SECONDS)
            if not ready:
                yield None
            for pipe in ready:
                assert isinstance(pipe, Connection)
                message = self._receive(pipe)
                if isinstance(message, Tally):
                    yield message
                else:
                    working.remove(pipe)

    def _receive(self, pipe: Connection) -> object:
        try:
            return pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise CrewFailure(
                "A process of the load test ended unexpectedly; what it said stands above."
            ) from error


def _start_deaf(member: SpawnProcess) -> None:
    """Starts a process that ignores SIGINT and SIGTERM from its first moment.

    Both may go to all processes of a terminal or a group; the leader tells the others what to do.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        member.start()
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


def _work(plan: Plan, process: int, tenants: Sequence[Access], pipe: Connection) -> None:
    """The whole life of a process."""
    end_with_parent(signal.SIGKILL)
    uvloop.run(_replay(plan, process=process, tenants=tenants, pipe=pipe))
    pipe.send(_DONE)


async def _replay(plan: Plan, *, process: int, tenants: Sequence[Access], pipe: Connection) -> None:
    replay = Replay(plan, process=process, tenants=tenants, flush=pipe.send)
    pipe.send(_READY)
    start: float = pipe.recv()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), _obey, replay, pipe)
    await replay.run(start)
    loop.remove_reader(pipe.fileno())


def _obey(replay: Replay, pipe: Connection) -> None:
    pipe.recv()
    replay.stop()
