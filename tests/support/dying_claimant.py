"""A worker that claims a full ball and stops on its way to the split, to be killed or woken there.

Run as `python -m tests.support.dying_claimant URL TENANT BALL STOP NOW_MS`. It prints STOP when it
has come so far, and waits for a line on standard input. Then it goes on to the end, never asking
whether it still may, and prints what became of it; for each further line it tries again.
"""

import asyncio
import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import fields

from service.splitter import children_of
from service.store import Children, Store
from service.store.children import Chunk

CLAIMED, STAGED_SOME, STAGED_ALL = STOPS = ("claimed", "staged some", "staged all")
NO_ID = 0


class HalfStaged(Children):
    """Children of whom the first chunk is written, then nothing until the process is woken."""

    def chunks(self) -> Iterator[Chunk]:
        first, *rest = super().chunks()
        assert rest[0].children, "all children are in the first chunk"
        yield first
        stop(STAGED_SOME)
        yield from rest


def stop(where: str) -> bool:
    """Blocks the whole process, as a stall would, until a line comes in; false at their end."""
    print(where, flush=True)
    return bool(sys.stdin.readline())


async def run(store: Store, name: str, *, ball: int, where: str, now_ms: int) -> None:
    """The steps of a split, one after the other."""
    tenant = await store.directory.read(name)
    token = secrets.token_hex(8)
    claim = await store.claim(tenant, ball=ball, token=token, now_ms=now_ms)
    assert claim.record is not None, claim
    if where == CLAIMED:
        stop(CLAIMED)
    arms, samples = await store.read_ball(tenant, ball=ball, record=claim.record)
    children = children_of(tenant, record=claim.record, arms=arms, samples=samples)
    parts = {f.name: getattr(children, f.name) for f in fields(children)}
    staged = await store.stage(
        tenant,
        ball=ball,
        token=token,
        children=HalfStaged(**parts) if where == STAGED_SOME else children,
    )
    first = staged or NO_ID
    if where == STAGED_ALL:
        stop(STAGED_ALL)
    while True:
        published = await store.publish(
            tenant, ball=ball, token=token, first=first, children=children
        )
        if not stop(json.dumps({"staged": staged, "published": published})):
            return
        staged = await store.stage(tenant, ball=ball, token=token, children=children)


async def main() -> None:
    """The command."""
    url, name, ball, where, now_ms = sys.argv[1:]
    store = Store(url)
    try:
        await run(store, name, ball=int(ball), where=where, now_ms=int(now_ms))
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
