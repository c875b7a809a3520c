"""What the service knows of a tenant between two calls, and the cache of it.

A `Tenant` is immutable: any change gives the tenant a new revision. Every step of a request names
the revision it was prepared with and is refused as stale when that is not the current one, so a
cached tenant can never open a revoked key or answer for one deleted.
"""

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.algorithm import AnyConfig, Config, config_fields, resolve
from service.store import keys
from service.store.access import TenantKey, unpack_keys

_CACHED_BYTES = 1 << 25
# A slot hash stays small enough for the server's compact encoding up to 2,500 decisions a second,
# and a tenant has at most this many slots at a time.
_SHORTEST_SLOT_MS = 200
_MOST_SLOTS = 36_000
# A few less than the ledger's ring has: clocks of several hosts may differ.
_SECTIONS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One incarnation of a tenant, at one revision."""

    name: str
    incarnation: str
    revision: str
    body_digest: str
    settings: Mapping[str, Any]
    created_at_ms: int
    keys: tuple[TenantKey, ...]
    config: AnyConfig
    arm_names: Sequence[str]

    @property
    def key(self) -> str:
        """The tenant's own hash in the store."""
        return keys.tenant(self.name)

    @property
    def base(self) -> str:
        """The prefix of the tenant's other keys."""
        return keys.base(self.name, self.incarnation)

    @property
    def zooming(self) -> Config:
        """The configuration of the paper's presets, whose balls are split by workers."""
        assert isinstance(self.config, Config)
        return self.config

    @property
    def reward_scale(self) -> "RewardScale":
        """Between rewards as they are sent and as they are learned from."""
        low, high = self.settings["reward_range"]
        return RewardScale(low, high - low)

    @property
    def window_ms(self) -> int:
        """For how long after a decision its reward is taken."""
        return round(1000 * float(self.settings["reward_window_seconds"]))

    @property
    def retention_ms(self) -> int:
        """For how long after its window a decision is remembered."""
        return round(1000 * float(self.settings["retention_seconds"]))

    @property
    def slot_ms(self) -> int:
        """The length of the time slots that decisions are kept in."""
        return max(_SHORTEST_SLOT_MS, (self.window_ms + self.retention_ms) // _MOST_SLOTS)

    @property
    def section_ms(self) -> int:
        """The length of the sections of time that decisions are counted in."""
        return max(1, math.ceil((self.window_ms + self.retention_ms) / _SECTIONS))

    def document(self) -> str:
        """What the store keeps for `from_document`."""
        return json.dumps(
            {
                "body_digest": self.body_digest,
                "settings": self.settings,
                "created_at_ms": self.created_at_ms,
            }
        )

    def revised(
        self, revision: str, *, settings: Mapping[str, Any], keys: Sequence[TenantKey]
    ) -> "Tenant":
        """The same at a new revision, with these keys; no setting among these is structural."""
        settings = {**self.settings, **settings}
        return replace(self, revision=revision, settings=settings, keys=tuple(keys))

    @classmethod
    def make(
        cls,
        *,
        name: str,
        incarnation: str,
        revision: str,
        body_digest: str,
        settings: Mapping[str, Any],
        created_at_ms: int,
        keys: Sequence[TenantKey],
    ) -> "Tenant":
        """From the digest of the body as sent and the settings resolved from it."""
        arms = settings["arms"]
        names = [str(arm) for arm in range(arms)] if isinstance(arms, int) else list(arms)
        return cls(
            name=name,
            incarnation=incarnation,
            revision=revision,
            body_digest=body_digest,
            settings=settings,
            created_at_ms=created_at_ms,
            keys=tuple(keys),
            config=resolve(
                arms=len(names),
                **{name: settings[name] for name in config_fields(settings["preset"])},
            ),
            arm_names=names,
        )

    @classmethod
    def from_document(
        cls, *, name: str, incarnation: str, revision: str, keys: bytes, document: bytes
    ) -> "Tenant":
        """From what the store has."""
        return cls.make(
            name=name,
            incarnation=incarnation,
            revision=revision,
            keys=unpack_keys(keys),
            **json.loads(document),
        )


@dataclass(frozen=True, slots=True)
class RewardScale:
    """Maps the tenant's range of rewards to [0, 1], and back."""

    low: float
    span: float

    def from_unit(self, value: float) -> float:
        """What was learned, as a reward of the tenant's own."""
        return self.low + value * self.span


class TenantCache:
    """The tenants used last, by name; a step that replies `stale` has its tenant dropped.

    It is bounded by the size of their documents: a tenant may have ten arms or a matrix.
    """

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, tuple[Tenant, int]] = OrderedDict()
        self._bytes = 0

    def get(self, name: str) -> Tenant | None:
        """The tenant as it was when last read, if it was read lately."""
        if name not in self._tenants:
            return None
        self._tenants.move_to_end(name)
        return self._tenants[name][0]

    def put(self, tenant: Tenant, *, size: int) -> None:
        """Remembers the tenant in the place of those used longest ago."""
        self.drop(tenant.name)
        self._tenants[tenant.name] = tenant, size
        self._bytes += size
        while self._bytes > _CACHED_BYTES and len(self._tenants) > 1:
            self.drop(next(iter(self._tenants)))

    def drop(self, name: str) -> None:
        """Forgets the tenant, so that it is read again."""
        _, size = self._tenants.pop(name, (None, 0))
        self._bytes -= size
