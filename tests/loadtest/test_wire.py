"""The load test's own HTTP connections, against servers that answer in every possible way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from loadtest.wire import Answer, NoAnswer, Wire
from tests.support.servers import free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"


class Server:
    """Reads requests and answers each with the same bytes."""

    def __init__(self, answer: bytes, *, hang_up: bool = False) -> None:
        self.answer, self.hang_up = answer, hang_up
        self.requests: list[bytes] = []
        self.connections: list[asyncio.Task[None] | None] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection."""
        self.connections.append(asyncio.current_task())
        while head := await self._head(reader):
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            self.requests.append(head + await reader.readexactly(length))
            writer.write(self.answer)
            if self.hang_up:
                break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""


@asynccontextmanager
async def wire_to(server: Server, *, timeout_seconds: float = 5.0) -> AsyncIterator[Wire]:
    """A wire to a listening server."""
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    wire = Wire(f"http://127.0.0.1:{port}/base/", timeout_seconds=timeout_seconds)
    try:
        yield wire
    finally:
        wire.close()
        listening.close()
        await asyncio.gather(*filter(None, server.connections))


async def post(wire: Wire, body: bytes = b"{}") -> Answer:
    """Posts to some path with some header."""
    return await wire.post(wire.head("/select", headers={"Authorization": "Bearer key"}), body)


async def failure(wire: Wire) -> tuple[str, bool]:
    """How a request fails, and whether it was sent."""
    with pytest.raises(NoAnswer) as caught:
        await post(wire)
    return caught.value.kind, caught.value.sent


def test_requests_arrive_whole_and_share_a_connection() -> None:
    """One after the other."""

    async def run() -> None:
        server = Server(OK)
        async with wire_to(server) as wire:
            assert [await post(wire, body) for body in (b"one", b"three")] == [(200, b"hi")] * 2
        assert len(server.connections) == 1
        first, second = server.requests
        assert first.startswith(b"POST /base/select HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nAuthorization: Bearer key\r\n" in first
        assert first.endswith(b"Content-Length: 3\r\n\r\none")
        assert second.endswith(b"Content-Length: 5\r\n\r\nthree")

    asyncio.run(run())


def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    """And these are used again."""

    async def run() -> None:
        server = Server(OK)
        async with wire_to(server) as wire:
            for _ in range(2):
                await asyncio.gather(*(post(wire) for _ in range(5)))
        assert len(server.connections) == 5

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer, expected",
    [
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", (503, b"")),
        (CHUNKED, (200, b"hi")),
    ],
)
def test_answers_are_read_in_every_form(answer: bytes, expected: tuple[int, bytes]) -> None:
    """Whatever stands between us and the service."""

    async def run() -> None:
        async with wire_to(Server(answer)) as wire:
            assert [await post(wire) for _ in range(2)] == [expected] * 2

    asyncio.run(run())


def test_a_connection_that_the_server_will_close_is_not_used_again() -> None:
    """It said so in its answer."""

    async def run() -> None:
        closing = Server(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), hang_up=True)
        async with wire_to(closing) as wire:
            for _ in range(3):
                assert await post(wire) == (200, b"hi")
        assert len(closing.connections) == 3

    asyncio.run(run())


@pytest.mark.parametrize("answer", [b"", OK[:-1], b"nonsense\r\n\r\n"])
def test_a_connection_that_breaks_off_leaves_the_fate_open(answer: bytes) -> None:
    """The service may have done what was asked."""

    async def run() -> None:
        async with wire_to(Server(answer, hang_up=True)) as wire:
            assert await failure(wire) == ("reset", True)

    asyncio.run(run())


def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    """Its fate is open as well; the connection is closed, lest the answer go to another request."""

    async def run() -> None:
        server = Server(b"")
        async with wire_to(server, timeout_seconds=0.1) as wire:
            assert await failure(wire) == ("timeout", True)
            assert await failure(wire) == ("timeout", True)
        assert len(server.connections) == 2

    asyncio.run(run())


def test_a_refused_connection_has_sent_nothing() -> None:
    """So the service cannot have counted it."""

    async def run() -> None:
        wire = Wire(f"http://127.0.0.1:{free_port()}", timeout_seconds=5.0)
        assert await failure(wire) == ("connect", False)

    asyncio.run(run())
