"""What a tenant's counters say, as the metrics and the API show it."""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from service.store.uplift import Uplift

_CLOSED = ("rewarded", "defaulted", "censored")
_SECTION = struct.Struct(">q4I")  # its number, how many were issued, how many ended in each way
_SUMS = struct.Struct("<ddd")
_CLUSTERS = "clusters_"
# What the reply has besides counters.
_OTHERS = {
    "created_at_ms",
    "window_ms",
    "retention_ms",
    "section_ms",
    "cells_owed",
    "cells_filled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStats:
    """One tenant at one moment.

    The sums run over rewarded decisions. `flagged_age_ms` is the age of the ball that has been
    flagged for longest, 0 if none is; `cells_filled` of `cells_owed` samples that the flagged balls
    need have come in.
    """

    tenant: str
    created_at_ms: int
    counters: Mapping[str, int]
    clusters: Mapping[int, int]
    decisions: Mapping[str, int]
    cells_owed: int
    cells_filled: int
    flagged_age_ms: int
    reward_sum: float
    regret_upper: float
    regret_estimate: float
    uplift: Uplift | None

    @classmethod
    def from_reply(cls, tenant: str, reply: Sequence[Any], *, now_ms: int) -> Self:
        """From what the step `stats` replies."""
        ledger, flagged, flagged_at, to_close, *pairs = reply
        fields = {name.decode(): value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
        reward_sum, regret_upper, regret_estimate = _SUMS.unpack(fields.pop("sums"))
        comparison = fields.pop("comparison")
        numbers = {name: int(value) for name, value in fields.items()} | {"flagged": flagged}
        clusters = {name for name in numbers if name.startswith(_CLUSTERS)}
        return cls(
            tenant=tenant,
            created_at_ms=numbers["created_at_ms"],
            counters={name: numbers[name] for name in numbers.keys() - clusters - _OTHERS},
            clusters={int(name.removeprefix(_CLUSTERS)): numbers[name] for name in clusters},
            decisions=_decisions(
                ledger,
                section_ms=numbers["section_ms"],
                window_ms=numbers["window_ms"],
                retention_ms=numbers["retention_ms"],
                to_close_ms=float(to_close or math.inf),
                now_ms=now_ms,
            ),
            cells_owed=numbers["cells_owed"],
            cells_filled=numbers["cells_filled"],
            flagged_age_ms=max(0, now_ms - int(float(flagged_at))) if flagged_at else 0,
            reward_sum=reward_sum,
            regret_upper=regret_upper,
            regret_estimate=regret_estimate,
            uplift=Uplift.from_sums(comparison) if comparison else None,
        )

    @property
    def suff_data_ratio(self) -> float:
        """The fill of the flagged balls' cells; with nothing flagged, nothing is missing."""
        return self.cells_filled / self.cells_owed if self.cells_owed else 1.0


def _decisions(
    ledger: bytes,
    *,
    section_ms: int,
    window_ms: int,
    retention_ms: int,
    to_close_ms: float,
    now_ms: int,
) -> dict[str, int]:
    """How many of the decisions that are remembered are in which state, to within a section.

    From `to_close_ms` on they are open though their window is over: a default reward is to come.
    """
    whole = len(ledger) // _SECTION.size * _SECTION.size
    states = dict.fromkeys(("open", *_CLOSED, "expired"), 0)
    # No numpy: it would take ten times as long for so few numbers, at each scrape, for each tenant.
    for number, issued, *closed in _SECTION.iter_unpack(ledger[:whole]):
        end_ms = (number + 1) * section_ms
        if end_ms + window_ms + retention_ms <= now_ms:
            continue
        for name, count in zip(_CLOSED, closed, strict=True):
            states[name] += count
        is_open = end_ms + window_ms > now_ms or end_ms > to_close_ms
        states["open" if is_open else "expired"] += issued - sum(closed)
    return states
