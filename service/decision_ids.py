"""Decision ids. One made here, by service or client, carries its issue time, which tells where its
record is.

An id is made before the step that uses it, so that a retry of the step is the same decision.
Nothing is trusted in an id: one that tells a time at which it was not issued is merely looked for
in vain there, and then by its pointer.
"""

import binascii
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode

_TIME_BYTES = 6
_RANDOM_BYTES = 9
_LENGTH = (_TIME_BYTES + _RANDOM_BYTES) * 4 // 3


def new_decision_id(now_ms: int) -> str:
    """An id of 20 characters: the time, and 72 random bits."""
    time = now_ms.to_bytes(_TIME_BYTES, "big")
    return urlsafe_b64encode(time + secrets.token_bytes(_RANDOM_BYTES)).decode()


def ranked_id(decision_id: str, place: int) -> str:
    """The id of a decision in a ranking, from that of the first, which has place 1."""
    return decision_id if place == 1 else f"{decision_id}.{place}"


def issue_time_ms(decision_id: str) -> int | None:
    """The time that the id tells, wherever in a ranking it is, if it tells one."""
    first, _, _ = decision_id.partition(".")
    if len(first) != _LENGTH:
        return None
    try:
        return int.from_bytes(urlsafe_b64decode(first)[:_TIME_BYTES], "big")
    except (binascii.Error, ValueError):
        return None
