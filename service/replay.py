"""`zooming replay`: a new tenant lives through a decision log once more, and learns the same.

All that the log tells happens again, in its order: arms come and go, each decision is made for its
arm alone, and ends as it did; a default is sent as a reward, an expiry as a censoring. The log
tells neither the configuration nor when a ball was split: the tenant is to be made with the
configuration of the other, and what clients did while a split was under way may come after it now.
Regrets are not the same: they compare with arms that could not be played now.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable

from service.client import Client, Refusal
from service.decision_log import REWARDED, UNREWARDED, Line
from service.errors import BadSetting
from service.log_lines import log_lines

_LARGEST = sys.float_info.max
_ARM_EVENTS = ("arm_added", "arm_paused", "arm_resumed", "arm_retired")


def replay(*, log: str, tenant: str, url: str) -> int:
    """Replays the log and says what came of it; 1 if the tenant is not as the log tells."""
    with (
        Client(url, key=os.environ.get("ZOOMING_ADMIN_KEY", "")) as client,
        log_lines(log) as lines,
    ):
        replayed = Replay(client, tenant)
        replayed.take_all(lines)
        warnings = replayed.warnings()
    counts = replayed.counts
    print(
        f"{tenant}: {counts['selected']:,} decisions made again, {counts['rewarded']:,} rewarded, "
        f"{counts['unrewarded']:,} closed without a reward, {counts['arms']:,} changes of arms; "
        f"{counts['left_open']:,} are still open; left out: {counts['holdout']:,} lines of the "
        f"holdout, {counts['repeated']:,} that came twice"
    )
    for warning in warnings:
        print(f"warning: {warning}")
    return 1 if warnings else 0


class Replay:
    """A tenant that has not decided yet, and how far it is."""

    def __init__(self, client: Client, tenant: str) -> None:
        self.counts: Counter[str] = Counter()
        self._client = client
        self._tenant = tenant
        self._open: dict[str, str] = {}  # ids in the log, and those that are used for them here
        self._last: tuple[int, ...] = ()
        self._takes_mapped = self._check()

    def _check(self) -> bool:
        """Whether the tenant takes contexts as the other had mapped them; raises if it is unfit."""
        state = self._client.tenant(self._tenant)
        if any(state.counters[f"trials_{kind}"] for kind in ("active", "flagged", "holdout")):
            raise BadSetting(
                f"The tenant '{self._tenant}' has decided before; make a new one, with the "
                "configuration of the one whose log this is."
            )
        if state.config["holdout"]:
            raise BadSetting(
                f"The tenant '{self._tenant}' has a holdout, which learns nothing: set `holdout` "
                "to 0 until the log is replayed."
            )
        scale = state.config["context_scale"]["kind"]
        if scale == "auto":
            raise BadSetting(
                f"The tenant '{self._tenant}' would learn a `context_scale` of its own: give it "
                "that of the other as it is now, or none."
            )
        return bool(scale == "unit")

    def take_all(self, lines: Iterable[bytes]) -> None:
        """Everything happens again."""
        for number, text in enumerate(lines, 1):
            if text.strip():
                line = Line(number, text)
                try:
                    self._take(line)
                except Refusal as refusal:
                    raise line.bad(
                        f"cannot happen again: {refusal} Begin anew with a new tenant, which has "
                        "the configuration and the first arms of the other, and a window long "
                        "enough for the replay"
                    ) from refusal
        self.counts["left_open"] = len(self._open)

    def _take(self, line: Line) -> None:
        place = line.place()
        if place is None:
            raise line.bad("has no 'id'")
        if place <= self._last:
            self.counts["repeated"] += 1
            return
        self._last = place
        event = line.text("event")
        if event in _ARM_EVENTS:
            self._change_arm(event, line.text("arm"))
        elif line.said("holdout"):
            self.counts["holdout"] += 1
        elif event == "selected":
            self._select(line)
        elif event in REWARDED | UNREWARDED:
            self._close(line, is_rewarded=event in REWARDED)
        else:
            raise line.bad(f"has an unknown event '{event}'")

    def _change_arm(self, event: str, arm: str) -> None:
        change = {
            "arm_added": self._client.add_arm,
            "arm_paused": self._client.pause_arm,
            "arm_resumed": self._client.resume_arm,
            "arm_retired": self._client.retire_arm,
        }[event]
        change(self._tenant, arm=arm)
        self.counts["arms"] += 1

    def _select(self, line: Line) -> None:
        logged_id, arm = line.text("decision_id"), line.text("arm")
        # No client may make an id such as those of a ranking; the line's own is as good.
        decision_id = f"ranked-{line.text('id')}" if "." in logged_id else logged_id
        mapped = line.number_of("mapped_context", least=0, most=1)
        context = line.number_of("context", least=-_LARGEST, most=_LARGEST)
        found = self._client.select(
            self._tenant,
            context=mapped if self._takes_mapped else context,
            decision_id=decision_id,
            eligible=[arm],
        )
        if found.mapped_context != mapped:
            raise line.bad(
                f"has a context that this tenant maps to {found.mapped_context}, not {mapped}: "
                "make one with the other's `context_scale`, or with none"
            )
        self._open[logged_id] = decision_id
        self.counts["selected"] += 1
        self.counts["elsewhere"] += found.ball != line.number_of("ball", least=0, most=2**32)

    def _close(self, line: Line, *, is_rewarded: bool) -> None:
        decision_id = self._open.pop(line.text("decision_id"), None)
        if decision_id is None:
            self.counts["incomplete"] += 1
        elif is_rewarded:
            reward = line.number_of("reward", least=-_LARGEST, most=_LARGEST)
            self._client.reward(self._tenant, decision_id=decision_id, reward=reward)
            self.counts["rewarded"] += 1
        else:
            self._client.censor(self._tenant, decision_id=decision_id)
            self.counts["unrewarded"] += 1

    def warnings(self) -> list[str]:
        """Why the tenant may not be what the other was."""
        said = []
        if self.counts["incomplete"]:
            said.append(
                f"{self.counts['incomplete']:,} decisions end in this log that were not made in "
                "it: it does not reach back to the beginning, so what was learned before is "
                "missing. Keep a longer log (`log_entries`)."
            )
        if self.counts["elsewhere"]:
            said.append(
                f"{self.counts['elsewhere']:,} decisions fell into other balls than the log tells: "
                "the configuration is another one, or clients went on while balls were split."
            )
        counters = self._client.tenant(self._tenant).counters
        made = counters["trials_active"] + counters["trials_flagged"]
        if made != self.counts["selected"]:
            said.append(
                f"the tenant made {made:,} decisions instead of {self.counts['selected']:,}: "
                "others used it meanwhile, or an id stands for two decisions in the log."
            )
        return said
