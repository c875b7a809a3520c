"""The keys that open a tenant: of each a hash, and until when it opens anything.

The list is one field of the tenant's hash, changed by revisions alone, so a worker that remembers a
key that was revoked since finds its view of the tenant stale.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass

# One in use and one to change to.
MOST_LIVE_KEYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKey:
    """A key as the store knows it; without `expires_at_ms` it opens until it is revoked."""

    id: str
    hash: str
    created_at_ms: int
    expires_at_ms: int | None = None

    @classmethod
    def make(cls, key_hash: str, *, now_ms: int, expires_at_ms: int | None = None) -> "TenantKey":
        """A new key with an id of its own."""
        return cls(
            id=f"k{secrets.token_hex(4)}",
            hash=key_hash,
            created_at_ms=now_ms,
            expires_at_ms=expires_at_ms,
        )

    def is_live(self, now_ms: int) -> bool:
        """Whether it opens anything now."""
        return self.expires_at_ms is None or now_ms < self.expires_at_ms


def live_keys(keys: Sequence[TenantKey], *, now_ms: int) -> tuple[TenantKey, ...]:
    """Those that open something now."""
    return tuple(key for key in keys if key.is_live(now_ms))


def pack_keys(keys: Sequence[TenantKey]) -> str:
    """As the tenant's hash has them."""
    return json.dumps([asdict(key) for key in keys])


def unpack_keys(packed: bytes) -> tuple[TenantKey, ...]:
    """From the tenant's hash."""
    return tuple(TenantKey(**record) for record in json.loads(packed))
