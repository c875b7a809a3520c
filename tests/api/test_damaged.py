"""A tenant that is damaged in the store, by whatever, is nobody's trouble but its own."""

import pytest
import redis

from service.store import keys
from tests.api.calls import call, content_of, create, select
from tests.support.servers import Service


def damaged(service: Service, raw: "redis.Redis", how: str) -> str:
    """A tenant with something in it that no step can read."""
    name = create(service)
    select(service, name)
    tenant = keys.tenant(name)
    incarnation = raw.hget(tenant, "incarnation")
    assert isinstance(incarnation, bytes)
    base = keys.base(name, incarnation.decode())
    match how:
        case "sums":
            raw.hset(tenant, "sums", "abc")
        case "depth":
            raw.hset(tenant, "depth", 20_000)
        case "document":
            raw.hset(tenant, "document", "{")
        case "slots":
            raw.set(keys.derived(base, "slots"), "x")
            raw.delete(keys.derived(base, "ledger"))
            raw.hset(keys.derived(base, "ledger"), "x", "x")
        case "balls":
            raw.hset(keys.derived(base, "balls"), "0", "x")
    return name


@pytest.mark.parametrize("how", ["sums", "depth", "document", "slots", "balls"])
def test_a_damaged_tenant_hides_no_other_and_can_be_deleted(
    service: Service, raw: "redis.Redis", how: str
) -> None:
    other = create(service)
    before = content_of(raw).keys()
    name = damaged(service, raw, how)
    page = call(service, "GET", "/metrics")
    assert page.status_code == 200
    assert f'zooming_partition_depth{{tenant="{other}"}}' in page.text
    assert call(service, "GET", "/tenants").json()["tenants"] == sorted([name, other])
    assert call(service, "DELETE", f"/tenants/{name}").status_code == 204
    assert content_of(raw).keys() == before
    assert call(service, "DELETE", f"/tenants/{name}").status_code == 404
