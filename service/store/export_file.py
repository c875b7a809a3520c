"""The file of an export, line by line: what is written, and what is taken back.

NDJSON. The first line names format, version, tenant and form; then comes one line for each portion
of a key, the tenant's own hash (the key "") first; the last line has the number and the digest of
all lines before it, so that a part of a file is never taken for the whole. Bytes are in base64.
"""

import binascii
import hashlib
import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.errors import BadExport
from service.store import keys
from service.store.portions import TYPES, Portion

FORMAT, VERSION = "zooming-export", 1
TOO_EARLY = "The file ends too early: this is not all of it. Send the whole, or export once more."
# A line holds a tenant's whole configuration, which may be a matrix of megabytes.
LONGEST_LINE = 1 << 27
_PORTION_FIELDS = {"key", "type", "ttl_ms", "at", "items"}
_NOT_EXPORTED = {"deleted", "staged"}


@dataclass(frozen=True, slots=True)
class Head:
    """Which tenant it was, and in which form it is kept."""

    tenant: str
    form: int


class End:
    """The file is whole."""


class FileWriter:
    """The lines of one file, in their order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._lines = 0

    def head(self, head: Head) -> bytes:
        """The first line."""
        about = {"format": FORMAT, "version": VERSION}
        return self._line({**about, "tenant": head.tenant, "form": head.form})

    def portions(self, portions: Sequence[Portion]) -> bytes:
        """A line for each."""
        return b"".join(self._portion(portion) for portion in portions)

    def end(self) -> bytes:
        """The last line."""
        return self._line({"end": {"lines": self._lines, "sha256": self._digest.hexdigest()}})

    def error(self, reason: str) -> bytes:
        """The last line of a file that cannot be finished."""
        return self._line({"error": reason})

    def _portion(self, portion: Portion) -> bytes:
        items = [[b64encode(part).decode() for part in item] for item in portion.items]
        return self._line(
            {
                "key": portion.key,
                "type": portion.type,
                "ttl_ms": portion.ttl_ms,
                "at": portion.at,
                "items": items,
            }
        )

    def _line(self, value: Mapping[str, Any]) -> bytes:
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        self._digest.update(line)
        self._lines += 1
        return line


class FileReader:
    """Takes the lines of one file, in their order; whatever is wrong is a `BadExport`."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._lines = 0
        self._last: Portion | None = None

    def read(self, line: bytes) -> Head | Portion | End:
        """What the line says."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith(b"\n"):
                raise BadExport(TOO_EARLY) from None
            raise self._bad("it is not JSON") from None
        if not isinstance(value, dict):
            raise self._bad("it is not an object")
        try:
            found = self._head(value) if self._lines == 0 else self._further(value)
        except (TypeError, ValueError, KeyError, binascii.Error):
            raise self._bad("it is not what an export has here") from None
        self._digest.update(line)
        self._lines += 1
        return found

    def _head(self, value: dict[str, Any]) -> Head:
        if value.get("format") != FORMAT:
            raise BadExport("This is no export of a tenant: its first line does not say so.")
        if value["version"] != VERSION:
            raise BadExport(
                f"This export has version {_number(value['version'])} of the format; this service "
                f"reads version {VERSION}. Use the release that wrote it."
            )
        return Head(str(value["tenant"]), _number(value["form"]))

    def _further(self, value: dict[str, Any]) -> Portion | End:
        if "error" in value:
            reason = str(value["error"])[:200]
            raise BadExport(f"The export itself was broken off ({reason}); export once more.")
        if "end" in value:
            told = {"lines": self._lines, "sha256": self._digest.hexdigest()}
            if value["end"] != told:
                raise BadExport("The file is not as it was written: lines were lost or changed.")
            return End()
        portion = _portion(value)
        last = self._last
        goes_on = last is not None and (last.key, last.type) == (portion.key, portion.type)
        if portion.at and not (goes_on and last is not None and portion.at == last.end):
            raise self._bad("it does not follow on the line before")
        self._last = portion
        return portion

    def _bad(self, what: str) -> BadExport:
        return BadExport(f"Line {self._lines + 1} is damaged: {what}. Export the tenant again.")


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a file that comes in chunks, each with its end."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield b"".join([*pieces, piece, b"\n"])
            pieces, size = [], 0
        pieces.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise BadExport(f"A line has more than {LONGEST_LINE} bytes; this is no export.")
    if size:
        yield b"".join(pieces)


def _portion(value: dict[str, Any]) -> Portion:
    if value.keys() != _PORTION_FIELDS or not isinstance(value["items"], list):
        raise ValueError
    kind, items = TYPES[value["type"]], [_item(item) for item in value["items"]]
    if not items or not all(len(item) in kind.sizes for item in items):
        raise ValueError
    if value["type"] == "zset" and any(math.isnan(float(score)) for _, score in items):
        raise ValueError
    if value["type"] == "string" and len(items) > 1:
        raise ValueError
    return Portion(
        key=_name(value["key"], kind=value["type"]),
        type=value["type"],
        ttl_ms=None if value["ttl_ms"] is None else _number(value["ttl_ms"]),
        at=_number(value["at"]),
        items=items,
    )


def _item(item: Any) -> list[bytes]:
    if not isinstance(item, list):
        raise TypeError
    return [b64decode(part, validate=True) for part in item]


def _name(name: Any, *, kind: str) -> str:
    """The name, if it is that of a key that a tenant may have."""
    if name == "" and kind == "hash":
        return ""
    if not re.fullmatch(r"[!-~]{1,200}", name):
        raise ValueError
    first, *parts = name.split(":")
    if first in _NOT_EXPORTED or len(parts) != len(keys.DERIVED[first]) or "" in parts:
        raise ValueError
    return str(name)


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value
