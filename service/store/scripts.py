"""The Lua steps as package data: composed with what they include, called by their SHA.

EVALSHA first, EVAL when the server does not know the script (any more): a SCRIPT FLUSH at any
moment is invisible, and two versions of the service share a store without knowing of each other.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from service.store import keys

STEPS = (
    "add_arm",
    "adopt",
    "censor",
    "change_arm",
    "claim",
    "close",
    "create",
    "delete",
    "forget",
    "freeze",
    "publish",
    "revise",
    "reward",
    "select",
    "settle",
    "stage",
    "stats",
    "sweep",
    "thaw",
)
_INCLUDE = "-- include:"
# The folders of libraries, by the tenant's preset. Each has `choosing`, `learning` and `settling`:
# a step for tenants of any preset includes these by name, and gets those of the tenant.
RULES = ("zooming", "adaptive")


def _read(name: str) -> str:
    return (files("service.store") / "lua" / f"{name}.lua").read_text(encoding="utf-8")


def _read_library(name: str, rule: str) -> str:
    """That of the rule, if it has one; else that of all; else the only one, the other rule's."""
    folder = files("service.store") / "lua" / "lib"
    places = [folder / rule, folder, *(folder / other for other in RULES)]
    found = (place / f"{name}.lua" for place in places)
    file = next((file for file in found if file.is_file()), folder / f"{name}.lua")
    return file.read_text(encoding="utf-8")


def _includes(text: str) -> list[str]:
    first = text.partition("\n")[0]
    return first.removeprefix(_INCLUDE).split() if first.startswith(_INCLUDE) else []


@cache
def compose(step: str, rule: str = RULES[0]) -> str:
    """The step's text behind that of the libraries it includes, each once, in order of need.

    A script defines all that it includes anew at each call, so it includes no more than it needs.
    Steps that include none of the three that both rules have are the same text with each.
    """
    parts: dict[str, str] = {}

    def add(text: str) -> None:
        for library in _includes(text):
            if library not in parts:
                library_text = _read_library(library, rule)
                add(library_text)
                parts[library] = library_text

    text = _read(step)
    add(text)
    script = "\n".join([*parts.values(), text])
    return f"{keys.lua_library(script)}\n{script}"


@cache
def _sha(step: str, rule: str) -> str:
    return hashlib.sha1(compose(step, rule).encode(), usedforsecurity=False).hexdigest()


async def call(
    client: "Redis", step: str, *, rule: str, key: str, args: tuple[Any, ...]
) -> list[Any]:
    """Runs the step; its reply starts with a status word."""
    try:
        reply = await client.evalsha(_sha(step, rule), 1, key, *args)
    except NoScriptError:
        reply = await client.eval(compose(step, rule), 1, key, *args)
    return list(reply)


async def call_all(
    client: "Redis", step: str, calls: Sequence[tuple[Any, ...]], *, rule: str
) -> list[list[Any]]:
    """Runs the step for each key with its arguments, in order, in one round trip.

    In one more where the server does not know the script: the first call that it refused brings the
    text along then, for those after it too. Only a flush between them takes a third.
    """
    replies: list[Any] = [None] * len(calls)
    missing: list[int] = list(range(len(calls)))
    text = None
    while missing:
        pipeline = client.pipeline(transaction=False)
        for place in missing:
            key, *args = calls[place]
            if text is not None and place == missing[0]:
                pipeline.eval(text, 1, key, *args)
            else:
                pipeline.evalsha(_sha(step, rule), 1, key, *args)
        for place, reply in zip(missing, await pipeline.execute(raise_on_error=False), strict=True):
            replies[place] = reply
        missing = [place for place in missing if isinstance(replies[place], NoScriptError)]
        text = compose(step, rule)
    if failure := next((reply for reply in replies if isinstance(reply, Exception)), None):
        raise failure
    return [list(reply) for reply in replies]
