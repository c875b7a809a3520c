"""A real HTTP server before a service that does harm, as told: answers lost, 503s, stalls."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.servers import Service


class Harm(Enum):
    """What becomes of a request."""

    NONE = auto()
    UNHEARD = auto()  # the connection breaks before the service hears of it
    UNANSWERED = auto()  # the service does it, then the connection breaks
    UNAVAILABLE = auto()  # a 503, and the service does not hear of it
    UNAVAILABLE_DONE = auto()  # a 503, and the service has done it
    STALLED = auto()  # the service does it, and the answer never comes
    PROXY_ERROR = auto()  # a 502 in the words of a proxy
    STRANGE = auto()  # a 200 that is not the service's


class Front:
    """Stands before a service; the harm planned comes to the next requests, one each."""

    def __init__(self, service: Service) -> None:
        self.seen: list[str] = []  # method and path of each request
        self.plan: list[Harm] = []
        self.retry_after = "0"
        self.over = threading.Event()
        self._where = urlsplit(service.url).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def harm(self, *plan: Harm) -> None:
        """What the next requests meet; those after them meet none."""
        self.plan, self.seen = list(plan), []

    def forward(self, request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        """Status, content type and body of the service's own answer."""
        length = int(request.headers.get("Content-Length", 0))
        connection = HTTPConnection(self._where, timeout=30)
        try:
            headers = {
                name: value
                for name, value in request.headers.items()
                if name in ("Content-Type", "Authorization")
            }
            connection.request(request.command, request.path, request.rfile.read(length), headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type", ""), answer.read()
        finally:
            connection.close()

    @contextmanager
    def standing(self) -> Iterator["Front"]:
        """Serves as long as the block lasts."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _meet(self) -> None:
            front.seen.append(f"{self.command} {self.path}")
            harm = front.plan.pop(0) if front.plan else Harm.NONE
            if harm in _UNHEARD:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = 503, "application/problem+json", _PROBLEM
            else:
                answer = front.forward(self)
            match harm:
                case Harm.UNHEARD | Harm.UNANSWERED:
                    self.close_connection = True
                    return
                case Harm.STALLED:
                    front.over.wait(30)
                    self.close_connection = True
                    return
                case Harm.UNAVAILABLE | Harm.UNAVAILABLE_DONE:
                    answer = 503, "application/problem+json", _PROBLEM
                case Harm.PROXY_ERROR:
                    answer = 502, "text/html", b"<h1>Bad gateway</h1>"
                case Harm.STRANGE:
                    answer = 200, "text/html", b"<h1>Welcome</h1>"
            status, kind, content = answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if status == 503:
                self.send_header("Retry-After", front.retry_after)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _meet

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler


_UNHEARD = (Harm.UNHEARD, Harm.UNAVAILABLE, Harm.PROXY_ERROR, Harm.STRANGE)
_PROBLEM = b'{"title": "Away", "status": 503, "detail": "The store is away."}'
