"""What an import takes from a file, beyond that the file is whole: anyone may have written it.

What follows from the tenant's document and catalogue is computed anew. Everything else in the
tenant's own hash is a counter or a packed record, and must have its type, its length and a sane
range; an unknown field is refused. A curve must be one, of an arm that the tenant has. So no file
makes a tenant that others have to suffer from.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from service.algorithm import AdaptiveConfig
from service.algorithm.model import MOST_BENT
from service.algorithm.partition import MOST_BALLS
from service.errors import BadExport
from service.store import keys
from service.store.access import TenantKey, unpack_keys
from service.store.fields import first_fields
from service.store.portions import Portion
from service.store.records import CurveBall, CurveRecord, ModelRecord
from service.store.tenant import LIVE, RETIRED, Tenant

# Raises a ValueError for what cannot be the settings of a tenant.
CheckSettings = Callable[[Mapping[str, Any]], None]

MOST_ARMS = 100_000
DEEPEST = 30
_MOST_IDS = 1 << 32
# Children that were staged and given up leave ids that nobody has. A deletion looks for them.
_MOST_UNUSED_BALLS = 1 << 20
_LONGEST_NAME = 128
# The end of the year 9999.
_LAST_MS = 253_402_300_800_000
_COUNTERS = re.compile(
    r"trials_(active|flagged|holdout)|changes|splits|active|flag_order|cells_owed|cells_filled"
    r"|rewards_(applied|defaulted|holdout|ignored|duplicate|conflict|late|unknown)"
    r"|clusters_(?P<depth>\d{1,2})"
)
_NUMBER = re.compile(rb"0|-?[1-9]\d{0,14}")
_SUMS, _COMPARISON = struct.Struct("<3d"), struct.Struct("<6d")
_TYPES = dict.fromkeys(keys.DERIVED, "string")
_TYPES |= dict.fromkeys(("balls", "path", "claims", "catalogue", "decisions"), "hash")
_TYPES |= dict.fromkeys(("waiting", "slots", "active", "means", "flagged"), "zset")
_TYPES["log"] = "stream"
# Computed anew, from the document or the catalogue, or given by the import.
_COMPUTED = {"incarnation", "arms", "arms_ever", "muted"}
_OF_THE_FREEZE = {"frozen_by", "frozen_until_ms"}
_LEARNED = {"model", "comparison"}
_ARM_EVENTS = {b"arm_added", b"arm_paused", b"arm_resumed", b"arm_retired"}
_DECISION_EVENTS = {b"selected", b"rewarded", b"defaulted", b"censored", b"expired"}
_NUMBERS_OF_AN_EVENT = (b"x", b"raw", b"propensity")
_ARM_FIELDS = {b"event", b"at", b"arm"}
_DECISION_FIELDS = _ARM_FIELDS | {
    b"id",
    b"ball",
    b"phase",
    b"holdout",
    b"reward",
    *_NUMBERS_OF_AN_EVENT,
}


class Gathered:
    """What the lines after the first two say that the tenant's own hash depends on."""

    def __init__(self) -> None:
        self.catalogue: dict[bytes, bytes] = {}
        self.states = b""
        self.balls = 0
        self._last_arms: dict[str, int] = {}

    def take(self, portion: Portion) -> None:
        """Looks at a portion on its way."""
        kind, _, part = portion.key.partition(":")
        if portion.type != _TYPES[kind]:
            raise _bad(portion.key, f"there is a {portion.type}")
        match kind:
            case "catalogue":
                self.catalogue.update((arm, value) for arm, value in portion.items)
                if len(self.catalogue) > MOST_ARMS:
                    raise _bad("catalogue", f"there are more than {MOST_ARMS} arms")
            case "states":
                self.states = self.states[: portion.at] + portion.items[0][0]
                if len(self.states) > MOST_ARMS // 4:
                    raise _bad("states", f"there are more than for {MOST_ARMS} arms")
            case "log":
                for _, *fields in portion.items:
                    self._take_event(dict(zip(fields[::2], fields[1::2], strict=True)))
            case "balls":
                self.balls += len(portion.items)
            case "curve":
                try:
                    self._note_arm(kind, part.encode())
                    _require_curve(portion)
                except (ValueError, struct.error) as error:
                    raise _bad(portion.key, "there is no curve as a tenant has it") from error
            case "slots":
                if not all(_NUMBER.fullmatch(slot) for slot, _ in portion.items):
                    raise _bad("slots", "there is one without a number")

    def require_arms_of(self, tenant: Tenant) -> None:
        """The log and the curves are of no other arms than the tenant has."""
        for what, arm in self._last_arms.items():
            if arm >= len(tenant.arm_names):
                raise _bad(what, "there is an arm that the tenant has not")

    def _note_arm(self, what: str, arm: bytes) -> None:
        number = _integer(arm, least=0, most=MOST_ARMS)
        self._last_arms[what] = max(self._last_arms.get(what, 0), number)

    def _take_event(self, event: Mapping[bytes, bytes]) -> None:
        try:
            _require(event[b"event"] in _ARM_EVENTS | _DECISION_EVENTS)
            of_decision = event[b"event"] in _DECISION_EVENTS
            _require(event.keys() == (_DECISION_FIELDS if of_decision else _ARM_FIELDS))
            _require(0 <= float(event[b"at"]) < _LAST_MS)
            self._note_arm("log", event[b"arm"])
            if of_decision:
                event[b"id"].decode()
                _integer(event[b"ball"], least=0, most=_MOST_IDS)
                _require(event[b"phase"] in (b"1", b"2") and event[b"holdout"] in (b"0", b"1"))
                numbers = [event[name] for name in _NUMBERS_OF_AN_EVENT]
                numbers += [event[b"reward"]] if event[b"reward"] else []
                _require(all(math.isfinite(float(number)) for number in numbers))
        except (ValueError, LookupError) as error:
            raise _bad("log", "there is not what an export has there") from error


def tenant_of(
    own: Mapping[bytes, bytes],
    gathered: Gathered,
    *,
    name: str,
    incarnation: str,
    check_settings: CheckSettings,
) -> tuple[Tenant, dict[str, Any]]:
    """The tenant that the file holds, and the fields of its hash."""
    try:
        document = json.loads(own[b"document"])
        _require(document.keys() == {"body_digest", "settings", "created_at_ms"})
        _require(type(document["body_digest"]) is str)
        _require_moment(document["created_at_ms"])
        for key in unpack_keys(own[b"keys"]):
            _require_key(key)
        settings = document["settings"]
        check_settings(settings)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise BadExport(
            "The second line of the file does not hold a tenant with settings as this service "
            "takes them."
        ) from error
    arms, added = settings["arms"], gathered.catalogue
    first_arms = arms if isinstance(arms, int) else len(arms)
    if first_arms + len(added) > MOST_ARMS:
        raise _bad("catalogue", f"the tenant has more than {MOST_ARMS} arms")
    try:
        numbers = sorted(_integer(arm, least=0, most=MOST_ARMS) for arm in added)
        _require(numbers == list(range(first_arms, first_arms + len(added))))
        _require(all(1 <= len(value[4:].decode()) <= _LONGEST_NAME for value in added.values()))
        tenant = Tenant.from_document(
            name=name,
            incarnation=incarnation,
            revision=f"{incarnation}.0",
            keys=own[b"keys"],
            document=own[b"document"],
            added=added,
            states=gathered.states,
        )
        _require(max(tenant.arm_states) <= RETIRED)
        standing = len(tenant.arm_states) - list(tenant.arm_states).count(RETIRED)
        _require(len(tenant.arms) == standing)
    except ValueError as error:
        raise _bad("catalogue", "there is not what an export has there") from error
    gathered.require_arms_of(tenant)
    return tenant, _own_fields(tenant, own, gathered)


def _own_fields(tenant: Tenant, own: Mapping[bytes, bytes], gathered: Gathered) -> dict[str, Any]:
    """What the document and the catalogue tell, and the rest as it is, once it is checked."""
    states = list(tenant.arm_states)
    computed = first_fields(tenant)
    fields = computed | {
        "incarnation": tenant.incarnation,
        "arms": len(tenant.arms),
        "arms_ever": len(states),
    }
    muted = len(states) - states.count(LIVE)
    if muted or b"muted" in own:
        fields["muted"] = muted
    required = {"sums", "depth", "next_ball", *(_LEARNED & computed.keys())}
    known = computed.keys() - _LEARNED | _COMPUTED | _OF_THE_FREEZE
    given = {_text(field): value for field, value in own.items()}
    for missing in required - given.keys():
        raise _bad(missing, "there is nothing")
    for field, value in given.items():
        if field in known:
            continue
        try:
            _check(field, value, tenant, gathered)
        except (ValueError, struct.error) as error:
            raise _bad(field, "there is not what a tenant has there") from error
        fields[field] = value
    return fields


def _check(field: str, value: bytes, tenant: Tenant, gathered: Gathered) -> None:
    match field:
        case "depth":
            _integer(value, least=0, most=DEEPEST)
        case "next_ball":
            next_ball = _integer(value, least=1, most=_MOST_IDS - 1)
            is_adaptive = isinstance(tenant.config, AdaptiveConfig)
            _require(is_adaptive or next_ball <= gathered.balls + _MOST_UNUSED_BALLS)
        case "sums":
            _require(all(map(math.isfinite, _SUMS.unpack(value))))
        case "comparison":
            sums = _COMPARISON.unpack(value) if tenant.settings["holdout"] else ()
            _require(bool(sums) == bool(value) and all(map(math.isfinite, sums)))
        case "model" if isinstance(tenant.config, AdaptiveConfig):
            _require_model(ModelRecord.unpack(value), arms=len(tenant.arm_names))
        case _:
            counter = _COUNTERS.fullmatch(field)
            _require(counter is not None and int(counter["depth"] or 0) <= DEEPEST)
            _integer(value, least=-(10**15), most=10**15)


def _require_model(model: ModelRecord, *, arms: int) -> None:
    numbers = (
        model.rewards,
        model.total,
        model.first_rewards,
        model.variance,
        model.shown_lipschitz,
        model.horizon,
        model.loudest,
        model.evidence,
        model.squares,
        model.bent_at,
        model.bend_squares,
        model.bends_known,
    )
    _require(all(map(math.isfinite, numbers)))
    _require(max(model.cursor, model.tried, model.fresh) <= arms)
    _require(model.variance >= 0 and model.shown_lipschitz > 0 and model.horizon > 0)
    _require(0 < model.steepness <= MOST_BENT)
    _require(0 <= model.bent_at <= model.rewards)
    _require(min(model.bend_squares, model.bends_known) > -1)


def _require_curve(portion: Portion) -> None:
    """Its balls lie side by side from 0 to 1, no more of them than a step ever goes through."""
    packed = portion.items[0][0]
    most = CurveRecord.HEAD.size + MOST_BALLS * CurveBall.LAYOUT.size
    _require(portion.at == 0 and len(packed) <= most)
    curve = CurveRecord.unpack(packed)
    balls = curve.balls
    counted, bends = (curve.rewards, curve.news, curve.drift), (curve.bend_square, curve.bend_known)
    _require(all(map(math.isfinite, (*counted, *bends))))
    _require(min(counted) >= 0 and min(bends) > -1)
    for ball in balls:
        _require_ball(ball)
    intervals = [ball.interval for ball in balls]
    _require([0.0, *(each.end for each in intervals)] == [*(each.start for each in intervals), 1.0])


def _require_ball(ball: CurveBall) -> None:
    counted = (ball.count_left, ball.count_right, ball.flying_left, ball.flying_right)
    learned = (ball.total_left, ball.total_right, ball.mean, ball.ucb)
    _require(all(map(math.isfinite, (*counted, *learned, ball.variance))))
    _require(min(counted) >= 0 and ball.variance > 0 and ball.depth <= DEEPEST)


def _require_key(key: TenantKey) -> None:
    _require(type(key.id) is str and type(key.hash) is str)
    _require_moment(key.created_at_ms)
    if key.expires_at_ms is not None:
        _require_moment(key.expires_at_ms)


def _require_moment(ms: int) -> None:
    _require(type(ms) is int and 0 <= ms < _LAST_MS)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


def _integer(text: bytes, *, least: int, most: int) -> int:
    _require(_NUMBER.fullmatch(text) is not None and least <= int(text) <= most)
    return int(text)


def _text(field: bytes) -> str:
    return field.decode("ascii", "backslashreplace")[:100]


def _bad(what: str, why: str) -> BadExport:
    return BadExport(
        f"The file is no export of this service: in '{what}' {why}. Export the tenant again."
    )
