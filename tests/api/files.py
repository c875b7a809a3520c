"""The files of exports, to be taken apart and put together again."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx

from tests.api.calls import call
from tests.support.servers import Service

Line = dict[str, Any]


def export(service: Service, tenant: str) -> bytes:
    """The tenant's file."""
    answer = call(service, "GET", f"/tenants/{tenant}/export")
    assert answer.status_code == 200, answer.text
    return answer.content


def import_(service: Service, tenant: str, file: bytes | Iterator[bytes]) -> httpx.Response:
    """The answer to an import."""
    return service.client.post(f"/tenants/{tenant}/import", content=file)


def lines_in(file: bytes) -> list[Line]:
    """The lines, read."""
    return [json.loads(line) for line in file.splitlines()]


def sealed(lines: list[Line]) -> bytes:
    """A file of these lines with an end that is right: as a forger would write it."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    end = {"lines": len(lines), "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps({"end": end}).encode() + b"\n"
