"""What a tenant's catalogue is by the store's raw keys, for the audits."""

from dataclasses import dataclass
from typing import Any

from service.store import keys
from service.store.tenant import LIVE, RETIRED


@dataclass(frozen=True)
class Catalogue:
    """The state of each arm there ever was, and the balls that the arms began in."""

    states: list[int]
    roots: set[int]

    @classmethod
    def read(cls, client: Any, state: dict[str, bytes], base: str) -> "Catalogue":
        """From the store; the counts of arms agree with it."""
        size = int(state["arms_ever"])
        packed = client.get(keys.derived(base, "states")) or b""
        bits = [byte >> shift & 3 for byte in packed for shift in (6, 4, 2, 0)]
        states = (bits + [LIVE] * size)[:size]
        assert int(state.get("muted", 0)) == size - states.count(LIVE)
        assert int(state["arms"]) == size - states.count(RETIRED)
        added = client.hgetall(keys.derived(base, "catalogue"))
        assert len(added) == size - int(state["root_arms"])
        return cls(states, {0, *(int.from_bytes(value[:4], "little") for value in added.values())})

    @property
    def kept(self) -> list[int]:
        """The arms that have not been retired."""
        return [arm for arm, state in enumerate(self.states) if state != RETIRED]
