"""The HTTP connections of a load test: as little work for the client as can be.

The client runs beside what it measures, so its own cost counts: here a request takes less than a
tenth of the time it takes in httpx, on which `service.client` does all that is not measured.
Nothing is sent twice: a request that fails is told to the caller, with whether the service may have
seen it.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

# Below the usual limit of 1,024 open files. Requests beyond it wait, and their latency shows it.
MOST_CONNECTIONS = 900
# What is in front of a service may close a connection that was idle for some seconds, and a
# request that is under way then is lost; so an idle connection is given up before that.
IDLE_SECONDS = 2.0


class Answer(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes


class NoAnswer(Exception):
    """A request that failed: `kind` is connect, timeout or reset."""

    def __init__(self, kind: str, *, sent: bool) -> None:
        super().__init__(kind)
        self.kind = kind
        self.sent = sent  # then the service may have done what was asked


class Wire:
    """Kept-alive connections to one service, each with one request at a time."""

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._prefix = parts.hostname or "", parts.path.rstrip("/")
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._netloc = parts.netloc.rpartition("@")[2]
        self._timeout_seconds = timeout_seconds
        # The longest idle comes first, so that all workers behind the connections get their share.
        self._idle: deque[_Connection] = deque()
        self._places = asyncio.Semaphore(MOST_CONNECTIONS)

    def head(self, path: str, *, headers: Mapping[str, str]) -> bytes:
        """The first lines of a request, made once and used for many."""
        lines = [f"POST {self._prefix}{path} HTTP/1.1", f"Host: {self._netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "Content-Type: application/json", "Content-Length: "]).encode()

    async def post(self, head: bytes, body: bytes) -> Answer:
        """The answer; `NoAnswer` when there is none in time."""
        connection = None
        try:
            async with asyncio.timeout(self._timeout_seconds), self._places:
                connection = await self._connect()
                return await connection.exchange(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        except TimeoutError:
            raise NoAnswer("timeout", sent=connection is not None) from None
        finally:
            if connection is not None:
                self._give_back(connection)

    def _give_back(self, connection: "_Connection") -> None:
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()

    async def _connect(self) -> "_Connection":
        while self._idle:
            connection = self._idle.popleft()
            if connection.reusable and time.monotonic() - connection.used_at < IDLE_SECONDS:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                _Connection, self._host, self._port, ssl=self._tls
            )
        except OSError as error:
            raise NoAnswer("connect", sent=False) from error
        return connection

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        while self._idle:
            self._idle.pop().close()


class _Connection(asyncio.Protocol):
    """One connection; the callbacks are httptools'."""

    def __init__(self) -> None:
        self.reusable = False
        self.used_at = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._answer: asyncio.Future[Answer] | None = None

    async def exchange(self, request: bytes) -> Answer:
        """Sends a request and waits for its answer."""
        if self._transport is None:
            raise NoAnswer("reset", sent=False)
        self.reusable = False
        self._body.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Closes it, whatever it does."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self.reusable = self._parser.should_keep_alive()
        self.used_at = time.monotonic()
        self._parser = httptools.HttpResponseParser(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(status, b"".join(self._body)))

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        self.reusable, self._transport = False, None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NoAnswer("reset", sent=True))
