"""The Lua steps as package data: composed with what they include, kept by the server as functions.

A function is built at its first call and stays; a script would define all that it includes at each
call, which took the store up to a third of its time. Functions are named by their text, so two
versions of the service share a store without knowing of each other. One that the server does not
know (any more) comes along with the next call: a FUNCTION FLUSH at any moment is invisible.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError, ResponseError

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
# What a full server may still be asked for: to tell how it is, and to give memory back.
_FLAGS = {"stats": "no-writes", "delete": "allow-oom", "forget": "allow-oom", "sweep": "allow-oom"}
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
    """Loads what the server lacks while it has memory; what other versions have left there goes.

    A version that still runs loads its own again.
    """
    ours = {function_of(step, rule) for step in STEPS for rule in RULES}
    listed = await client.function_list(f"{_PREFIX}*")
    known = {dict(zip(entry[::2], entry[1::2], strict=True))[b"library_name"] for entry in listed}
    names = {name.decode() for name in known}
    for name in names - {function.name for function in ours}:
        with suppress(ResponseError):  # another instance was first
            await client.function_delete(name)
    with suppress(OutOfMemoryError):
        for function in ours:
            if function.name not in names:
                await client.function_load(function.text, replace=True)


async def call(
    client: "Redis", step: str, *, rule: str, key: str, args: tuple[Any, ...]
) -> list[Any]:
    """Runs the step; its reply starts with a status word."""
    try:
        return list(await client.fcall(function_of(step, rule).name, 1, key, *args))
    except ResponseError as error:
        if not _is_missing(error):
            raise
    [reply] = await call_all(client, step, [(key, *args)], rule=rule)
    return reply


async def call_all(
    client: "Redis", step: str, calls: Sequence[tuple[Any, ...]], *, rule: str
) -> list[list[Any]]:
    """Runs the step for each key with its arguments, in order, in one round trip.

    In one more where the server does not know the function: those that it refused come again, with
    the text and in one transaction.
    """
    function = function_of(step, rule)
    replies: list[Any] = [None] * len(calls)
    missing, load = list(range(len(calls))), False
    while missing:
        pipeline = client.pipeline(transaction=load)
        if load:
            pipeline.function_load(function.text, replace=True)
        for place in missing:
            key, *args = calls[place]
            pipeline.fcall(function.name, 1, key, *args)
        answers = await pipeline.execute(raise_on_error=False)
        if load and isinstance(answers[0], Exception):
            raise answers[0]
        for place, reply in zip(missing, answers[load:], strict=True):
            replies[place] = reply
        missing, load = [place for place in missing if _is_missing(replies[place])], True
    if failure := next((reply for reply in replies if isinstance(reply, Exception)), None):
        raise failure
    return [list(reply) for reply in replies]


def _is_missing(reply: Any) -> bool:
    return isinstance(reply, ResponseError) and str(reply) == _MISSING
