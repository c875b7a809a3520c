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
from service.algorithm.scales import Auto, Linear, Quantiles, Unit, scale_from
from service.decision_ids import issue_time_ms
from service.store import keys
from service.store.access import TenantKey, unpack_keys

_CACHED_BYTES = 1 << 25
# A slot hash stays small enough for the server's compact encoding up to 2,500 decisions a second.
# Decisions are closed a slot at a time, so a slot is never long.
_SHORTEST_SLOT_MS = 200
_LONGEST_SLOT_MS = 2_000
_MOST_SLOTS = 36_000
LIVE, PAUSED, RETIRED = 0, 1, 2
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
    arm_states: Sequence[int]
    # The arms by their names, retired ones left out, and those that may be played.
    arms: Mapping[str, int]
    live: Sequence[int]
    # The balls that arms which were added began with; the others began in ball 0.
    first_balls: Mapping[int, int]
    context_scale: Unit | Linear | Quantiles | Auto

    @property
    def key(self) -> str:
        """The tenant's own hash in the store."""
        return keys.tenant(self.name)

    @property
    def base(self) -> str:
        """The prefix of the tenant's other keys."""
        return keys.base(self.name, self.incarnation)

    @property
    def rule(self) -> str:
        """The library of steps that plays the tenant's preset."""
        return "adaptive" if self.settings["preset"] == "adaptive" else "zooming"

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
    def contexts_to_gather(self) -> int:
        """From how many contexts the scale is learned; 0 if it is known."""
        return self.context_scale.contexts if isinstance(self.context_scale, Auto) else 0

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
        wanted_ms = (self.window_ms + self.retention_ms) // _MOST_SLOTS
        return min(max(_SHORTEST_SLOT_MS, wanted_ms), _LONGEST_SLOT_MS)

    def slot_of(self, decision_id: str) -> str:
        """The slot that the id tells, or an empty string."""
        at_ms = issue_time_ms(decision_id)
        return "" if at_ms is None else str(at_ms // self.slot_ms)

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
        return replace(
            self,
            revision=revision,
            settings=settings,
            keys=tuple(keys),
            context_scale=scale_from(settings["context_scale"]),
        )

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
        added: Mapping[bytes, bytes] | None = None,
        states: bytes = b"",
    ) -> "Tenant":
        """From the digest of the body as sent and the settings resolved from it.

        `added` and `states` are what has become of the catalogue since, as the store has it.
        """
        arms = settings["arms"]
        names = [str(arm) for arm in range(arms)] if isinstance(arms, int) else list(arms)
        first_arms = len(names)
        later = [value for _, value in sorted((int(arm), v) for arm, v in (added or {}).items())]
        names += [value[4:].decode() for value in later]
        arm_states = _unpack_states(states, arms=len(names))
        return cls(
            name=name,
            incarnation=incarnation,
            revision=revision,
            body_digest=body_digest,
            settings=settings,
            created_at_ms=created_at_ms,
            keys=tuple(keys),
            config=resolve(
                arms=first_arms,
                **{name: settings[name] for name in config_fields(settings["preset"])},
            ),
            arm_names=names,
            arm_states=arm_states,
            arms={
                name: arm
                for arm, (name, state) in enumerate(zip(names, arm_states, strict=True))
                if state != RETIRED
            },
            live=[arm for arm, state in enumerate(arm_states) if state == LIVE],
            first_balls={
                first_arms + place: int.from_bytes(value[:4], "little")
                for place, value in enumerate(later)
            },
            context_scale=scale_from(settings["context_scale"]),
        )

    @classmethod
    def from_document(
        cls,
        *,
        name: str,
        incarnation: str,
        revision: str,
        keys: bytes,
        document: bytes,
        added: Mapping[bytes, bytes],
        states: bytes,
    ) -> "Tenant":
        """From what the store has."""
        return cls.make(
            name=name,
            incarnation=incarnation,
            revision=revision,
            keys=unpack_keys(keys),
            added=added,
            states=states,
            **json.loads(document),
        )


def _unpack_states(packed: bytes, *, arms: int) -> list[int]:
    """Two bits an arm, the first arm's highest; what is missing is live."""
    states = [byte >> shift & 3 for byte in packed for shift in (6, 4, 2, 0)]
    return (states + [LIVE] * arms)[:arms]


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
