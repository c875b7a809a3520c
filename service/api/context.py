"""What every call needs at hand, and who may call it.

With an admin key set, `Authorization: Bearer KEY` is needed everywhere but on the probes, the docs
and the metrics, which have a key of their own.
A key that does not open a tenant gets the same answer whether or not that tenant exists.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from service.errors import (
    Forbidden,
    StaleTenant,
    StoreUnavailable,
    Unauthenticated,
    UnknownTenant,
)
from service.metrics import ProcessMetrics
from service.settings import Settings
from service.splitter import Splitter
from service.store import Store, Tenant, TenantKey, live_keys

# Of several changes at the same time one wins each round.
_STALE_READS = 20
# Has the page at /docs ask for a key and send it; whether one is needed is decided here.
KEY_IN_DOCS = HTTPBearer(auto_error=False, description="The admin key, or the tenant's own")

Answer = TypeVar("Answer")


def clock_ms() -> int:
    """Now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def moment(at_ms: int) -> datetime:
    """The time, as answers show it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def new_key() -> str:
    """A key with 256 random bits."""
    return f"zk_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """What is stored of a key. Keys are random, so a fast hash guards them like a slow one."""
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass(slots=True)
class Context:
    """One app's settings, store, splitter and metrics."""

    settings: Settings
    store: Store
    splitter: Splitter
    metrics: ProcessMetrics

    def require_metrics_key(self, key: str | None) -> None:
        """Raises unless the key opens the metrics, or none is set for them."""
        if not self.settings.metrics_key:
            return
        if key is None:
            raise Unauthenticated("Send the key of the metrics as 'Authorization: Bearer KEY'.")
        keys = filter(None, (self.settings.metrics_key, self.settings.admin_key))
        if not any(_same(hash_key(key), hash_key(one)) for one in keys):
            raise Forbidden("This call needs the key of the metrics.")

    def is_admin(self, key: str | None) -> bool:
        """Whether the key is the admin key, or none is set."""
        admin_key = self.settings.admin_key
        return not admin_key or (key is not None and _same(hash_key(key), hash_key(admin_key)))

    def require_admin(self, key: str | None) -> None:
        """Raises unless the key is the admin key, or none is set."""
        if self.is_admin(key):
            return
        if key is None:
            raise Unauthenticated("Send the admin key as 'Authorization: Bearer KEY'.")
        raise Forbidden("This call needs the admin key.")

    async def tenant(self, name: str, key: str | None) -> Tenant:
        """The tenant, if the key opens it; a step must say whether this view of it is current."""
        await self._require_key(name, key)
        return await self.store.directory.get(name)

    async def current_tenant(self, name: str, key: str | None) -> Tenant:
        """The same as it is now, for calls that no step guards against an outdated view."""
        await self._require_key(name, key)
        try:
            found = await self.store.directory.current(name)
        except UnknownTenant:
            if self.is_admin(key):
                raise
            raise _does_not_open(name) from None
        # What let the key in may have been remembered from before it was revoked.
        if not self.is_admin(key) and not _opens(key, found.keys):
            raise _does_not_open(name)
        return found

    async def _require_key(self, name: str, key: str | None) -> None:
        """A wrong key costs one look at the store, whether or not there is such a tenant."""
        if self.is_admin(key):
            return
        if key is None:
            raise Unauthenticated("Send the tenant's key as 'Authorization: Bearer KEY'.")
        directory = self.store.directory
        if _opens(key, directory.cached_keys(name)):
            return
        if not _opens(key, await directory.read_keys(name)):
            raise _does_not_open(name)

    async def with_tenant(
        self, name: str, key: str | None, step: Callable[[Tenant], Awaitable[Answer]]
    ) -> Answer:
        """Runs the step for the tenant as it is now: reads it again when it proves outdated."""
        return await _while_stale(lambda: self.tenant(name, key), step)

    async def with_current_tenant(
        self, name: str, key: str | None, step: Callable[[Tenant], Awaitable[Answer]]
    ) -> Answer:
        """The same for a step that may refuse by what it knows of the tenant, unasked."""
        return await _while_stale(lambda: self.current_tenant(name, key), step)


async def _while_stale(
    read: Callable[[], Awaitable[Tenant]], step: Callable[[Tenant], Awaitable[Answer]]
) -> Answer:
    for _ in range(_STALE_READS):
        tenant = await read()
        try:
            return await step(tenant)
        except StaleTenant:
            continue
    raise StoreUnavailable("stale", "the tenant changes faster than it can be read")


def bearer_key(headers: Headers) -> str | None:
    """The key of an `Authorization: Bearer KEY` header."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def _opens(key: str | None, keys: Sequence[TenantKey]) -> bool:
    """Whether the key is one of these, and has not expired."""
    if key is None:
        return False
    hashed = hash_key(key)
    return any(_same(hashed, one.hash) for one in live_keys(keys, now_ms=clock_ms()))


def _does_not_open(name: str) -> Forbidden:
    return Forbidden(f"This key does not open the tenant '{name}'.")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


# Both are async because FastAPI runs plain functions in a thread, which costs more than they do.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _bearer(request: Request) -> str | None:
    return bearer_key(request.headers)


Here = Annotated[Context, Depends(_context)]
Key = Annotated[str | None, Depends(_bearer)]
