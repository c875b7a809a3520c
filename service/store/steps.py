"""The Lua steps as package data: composed with what they include, kept by the server as functions.

A function is built at its first call and stays; a script would define all that it includes at each
call, which took the store up to a third of its time. Functions are named by their text, so two
versions of the service share a store without knowing of each other. One that the server does not
know (any more) comes along with the next call: a FUNCTION FLUSH at any moment is invisible.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from service.store import keys

logger = logging.getLogger("zooming")

STEPS = (
    "add_arm",
    "adopt",
    "censor",
    "change_arm",
    "claim",
    "close",
    "condemn",
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
# What a full server may still be asked for: to tell how it is, and to give memory back.
_GIVES_BACK = ("condemn", "delete", "sweep", "forget", "thaw")
_FLAGS = {"stats": "no-writes"} | dict.fromkeys(_GIVES_BACK, "allow-oom")
_PREFIX = "zooming_"
_MISSING = "Function not found"


class Function(NamedTuple):
    """A step as a server keeps it: a library of the same name."""

    name: str
    text: str


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


def libraries(step: str, rule: str = RULES[0]) -> str:
    """The text of the libraries that a step includes, each once, in order of need."""
    parts: dict[str, str] = {}

    def add(text: str) -> None:
        for library in _includes(text):
            if library not in parts:
                library_text = _read_library(library, rule)
                add(library_text)
                parts[library] = library_text

    text = _read(step)
    add(text)
    return "\n".join([keys.lua_library("\n".join([*parts.values(), text])), *parts.values()])


@cache
def function_of(step: str, rule: str = RULES[0]) -> Function:
    """The function, which builds what it includes at its first call: a load may do next to nothing.

    Steps that include none of the three that both rules have are the same with each.
    """
    lines = [
        "local step",
        "local function build()",
        libraries(step, rule),
        "return function(KEYS, ARGV)",
        _read(step),
        "end",
        "end",
        "local function run(keys, arguments)",
        "  step = step or build()",
        "  return step(keys, arguments)",
        "end",
    ]
    flags = f'"{_FLAGS[step]}"' if step in _FLAGS else ""
    body = "\n".join(lines)
    digest = hashlib.sha1(f"{flags}{body}".encode(), usedforsecurity=False).hexdigest()
    name = f"{_PREFIX}{step}_{digest[:16]}"
    register = f'{{ function_name = "{name}", callback = run, flags = {{ {flags} }} }}'
    return Function(name, f"#!lua name={name}\n{body}\nredis.register_function({register})\n")


async def install(client: "Redis") -> None:
    """Loads what the server lacks; then what other versions have left there goes.

    A version that still runs loads its own again. Where the server refuses, say because it is full,
    it keeps what it has, and each step comes along with its first call.
    """
    ours = {function_of(step, rule) for step in STEPS for rule in RULES}
    try:
        listed = await client.function_list(f"{_PREFIX}*")
        known = {entry[entry.index(b"library_name") + 1].decode() for entry in listed}
        for function in ours:
            if function.name not in known:
                await client.function_load(function.text, replace=True)
        for name in known - {function.name for function in ours}:
            with suppress(ResponseError):  # another instance was first
                await client.function_delete(name)
    except ResponseError as error:
        logger.warning("The store does not take all steps yet: %s", error)


async def call(
    client: "Redis", step: str, *, rule: str, key: str, args: tuple[Any, ...]
) -> list[Any]:
    """Runs the step; its reply starts with a status word."""
    function = function_of(step, rule)
    try:
        return list(await client.fcall(function.name, 1, key, *args))
    except ResponseError as error:
        if not _is_missing(error):
            raise
    reply = await _load_and_call(client, function, (key, *args))
    if isinstance(reply, Exception):
        raise reply
    return list(reply)


async def call_all(
    client: "Redis", step: str, calls: Sequence[tuple[Any, ...]], *, rule: str
) -> list[list[Any]]:
    """Runs the step for each key with its arguments, in order, in one round trip.

    In two more where the server does not know the function: the first call that it refused loads
    it, and those after that one come again.
    """
    function = function_of(step, rule)
    replies: list[Any] = [None] * len(calls)
    missing = list(range(len(calls)))
    while missing:
        pipeline = client.pipeline(transaction=False)
        for place in missing:
            key, *args = calls[place]
            pipeline.fcall(function.name, 1, key, *args)
        for place, reply in zip(missing, await pipeline.execute(raise_on_error=False), strict=True):
            replies[place] = reply
        missing = [place for place in missing if _is_missing(replies[place])]
        if missing:
            first = missing.pop(0)
            replies[first] = await _load_and_call(client, function, calls[first])
    if failure := next((reply for reply in replies if isinstance(reply, Exception)), None):
        raise failure
    return [list(reply) for reply in replies]


async def _load_and_call(client: "Redis", function: Function, call: tuple[Any, ...]) -> Any:
    """The reply, or the error that the step ended with: no flush comes between the two."""
    pipeline = client.pipeline(transaction=True)
    pipeline.function_load(function.text, replace=True)
    pipeline.fcall(function.name, 1, *call)
    loaded, reply = await pipeline.execute(raise_on_error=False)
    if isinstance(loaded, Exception):
        raise loaded
    return reply


def _is_missing(reply: Any) -> bool:
    return isinstance(reply, ResponseError) and str(reply) == _MISSING
