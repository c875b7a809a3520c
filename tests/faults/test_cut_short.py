"""What was cut short is finished in the background: nobody waits for it."""

import asyncio
from pathlib import Path

import redis

from service.store import Store, keys
from tests.support.engine import new_engine
from tests.support.servers import running_service, wait_for


def test_a_start_does_not_wait_for_deletions(store_url: str, tmp_path: Path) -> None:
    """Here for one that would take hours: the tenant has so many balls, or says so."""

    async def leave() -> str:
        store = Store(store_url)
        try:
            made = await new_engine(
                store, {"arms": 2, "preset": "simulation", "horizon": 9, "noise": 1.0}
            )
        finally:
            await store.close()
        return f"{made.tenant.name} {made.tenant.incarnation}"

    entry = asyncio.run(leave())
    name, incarnation = entry.split()
    deleted = keys.derived(keys.base(name, incarnation), "deleted")
    with redis.Redis.from_url(store_url) as raw:
        raw.hset(keys.tenant(name), "next_ball", 2**40)
        raw.rename(keys.tenant(name), deleted)
        raw.sadd(keys.DELETIONS, entry)
        with running_service(tmp_path, redis_url=store_url) as service:
            assert service.client.get("/tenants").json() == {"tenants": []}
            assert raw.exists(deleted)
            raw.hset(deleted, "next_ball", 1)
            wait_for(lambda: not raw.exists(keys.DELETIONS), what="the end of the deletion")
        assert not raw.exists(deleted)
