"""Answers that come as a stream of lines, for both clients."""

from collections.abc import Iterator
from typing import Any

import httpx

from service.client.calls import Call
from service.client.errors import NoAnswer
from service.client.tries import NoReply


class Lines:
    """The lines of one answer, each with its end.

    A newline alone ends a line: in JSON, other signs that end one elsewhere may stand in a name.
    """

    def __init__(self, call: Call[Any]) -> None:
        self._call = call
        self._begun = b""
        self._count = 0

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk."""
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        self._count += len(whole)
        for line in whole:
            yield line + b"\n"

    def rest(self) -> Iterator[bytes]:
        """The last line, should it have no end."""
        if self._begun:
            yield self._begun

    def broken_off(self, error: httpx.RequestError) -> NoReply:
        """A failure like any other before the first line; later the caller has to know of it."""
        if self._count == 0:
            self._begun = b""
            return NoReply.of(error)
        raise NoAnswer(
            f"{self._call.method} {self._call.path} broke off after {self._count} lines: {error}."
        ) from error
