"""Answers that are streams of lines, from a real server that sends them in awkward pieces."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from service.client import AsyncClient, Client, NoAnswer, NotFound, TenantState, Unavailable
from tests.client.conftest import NewClient

EVENTS = [
    {"id": "1-0", "event": "arm_added", "at": "2025-01-01T00:00:00Z", "arm": "a\u2028b\u0085c"},
    {"id": "2-0", "event": "selected", "at": "2025-01-01T00:00:01Z", "context": 0.5},
]
MADE = {"tenant": "copy", "created_at": "2025-01-01T00:00:00Z", "config": {}, "counters": {"a": 1}}
TEXT = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in EVENTS).encode()
FIRST = TEXT.index(b"\n") + 1


class Handler(BaseHTTPRequestHandler):
    """Answers by the tenant's name."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    taken: list[bytes]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        match self.path.split("/")[2]:
            case "whole":
                self._send(TEXT)
            case "cut":
                self._send(TEXT[: FIRST + 9], whole=False)
            case "late" if len(self.asked) > 1:
                self._send(TEXT)
            case "late":
                self._send(TEXT[:9], whole=False)
            case "away":
                self._refuse(503)
            case _:
                self._refuse(404)

    def do_POST(self) -> None:
        while size := int(self.rfile.readline(), 16):
            self.taken.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        content = json.dumps(MADE).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send(self, text: bytes, *, whole: bool = True) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(text), 7):
            piece = text[start : start + 7]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n" if whole else b"")
        self.close_connection = not whole

    def _refuse(self, status: int) -> None:
        content = json.dumps({"title": "No", "status": status, "detail": "No."}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[str]:
    """The server's address; it begins with nothing asked and nothing taken."""
    Handler.asked, Handler.taken = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_log_is_read_event_by_event(server: str, new_client: NewClient) -> None:
    """Signs that end a line elsewhere do not do so in a name."""
    assert list(new_client(server).log("whole")) == EVENTS
    assert list(new_client(server).log("whole", after="1-0")) == EVENTS
    assert Handler.asked == ["/tenants/whole/log", "/tenants/whole/log?after=1-0"]


def test_a_stream_that_breaks_off_is_told(server: str, new_client: NewClient) -> None:
    """After what came whole; and nothing is begun again by itself."""
    events = new_client(server).log("cut")
    assert next(events) == EVENTS[0]
    with pytest.raises(NoAnswer, match="broke off after 1 lines"):
        next(events)
    assert len(Handler.asked) == 1


def test_a_stream_that_breaks_off_before_its_first_line_is_asked_for_again(
    server: str, new_client: NewClient
) -> None:
    assert list(new_client(server).log("late")) == EVENTS
    assert len(Handler.asked) == 2


def test_a_stream_that_is_refused(server: str, new_client: NewClient) -> None:
    with pytest.raises(NotFound):
        list(new_client(server).log("nobody"))
    assert len(Handler.asked) == 1
    with pytest.raises(Unavailable):
        list(new_client(server).export_tenant("away"))
    assert len(Handler.asked) > 2


def test_an_export_is_the_import_of_another(server: str) -> None:
    """Line by line, never whole in memory."""
    with Client(server) as client:
        made = client.import_tenant("copy", lines=client.export_tenant("whole"))
    assert (made.tenant, made.counters) == ("copy", {"a": 1})
    assert Handler.taken == [TEXT[:FIRST], TEXT[FIRST:]]


def test_an_export_is_the_import_of_another_for_asyncio(server: str) -> None:
    async def copy() -> TenantState:
        async with AsyncClient(server) as client:
            return await client.import_tenant("copy", lines=client.export_tenant("whole"))

    assert asyncio.run(copy()).counters == {"a": 1}
    assert Handler.taken == [TEXT[:FIRST], TEXT[FIRST:]]
