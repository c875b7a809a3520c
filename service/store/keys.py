"""The only place that spells a key, for Python and for the steps.

All keys of a tenant carry the hash tag `{tenant}`, so a tenant is one cluster slot. The tenant's
own hash holds its revision, constants and counters; everything else lives under `base`, which names
the *incarnation*: a tenant deleted and made again shares no key with its past. What each key holds:

    zooming:tenants                  hash: tenant -> incarnation, the list of tenants
    zooming:deletions                set: "tenant incarnation", deletions not known to be finished
    zooming:imports                  hash: "tenant incarnation" -> when the import is given up, ms;
                                     imports not known to be finished
    zooming:closer                   string: the worker that closes decisions, for a few seconds
    zooming:{t}                      hash: revision, incarnation, document, constants, counters
    zooming:{t}:<incarnation>:       the base of all that follows
      deleted                        the tenant's hash, once it is deleted, until all is swept
      staged                         the tenant's hash, while the tenant is imported
      balls                          hash: ball -> packed record (records.py)
      path                           hash: "a:d:i" -> rank and id of the best active ball of that
                                     interval and the best mean of a ball there, "f:d:i" -> the
                                     flagged ball that is first in its queue
      claims                         hash: ball -> deadline, children reserved, token
      catalogue                      hash: arm that was added -> its first ball, u32, and its name
      states                         string: two bits an arm: live, paused or retired
      contexts                       string: the first contexts, f64 each, while a scale is learned
      curve:<arm>                    string: packed curve (records.py), preset adaptive only
      arms:<ball>                    string: the arm set, u32 each
      forward:<ball>                 string: for each half and arm, child and position in it
      asked:<ball>                   bitmap: arms of a flagged ball that are still asked for samples
                                     (preset adaptive: arms of the root that are not yet tried)
      cells:<ball>                   u32 array: for each arm issued, full cells, count of each cell
      samples:<ball>:<bucket>        string: packed samples, in order of arrival
      active:<depth>:<index>         sorted set: active balls of an interval by rank; under the
                                     preset adaptive the arms that have a ball there
      means:<depth>:<index>          sorted set: the same by their means, best first
      flagged:<depth>:<index>        sorted set: flagged balls of an interval by flagging order
      waiting                        sorted set: all flagged balls by the time of their flagging
      decisions:<slot>               hash: decision id -> packed record, a hash a time slot
      pointer:<decision id>          string: the slot of a decision whose id does not tell it
      slots                          sorted set: slots by when their decisions are to be closed,
                                     and then by when they are to be forgotten
      ledger                         string: what became of decisions, by section of time
      log                            stream: what happened, if the tenant keeps a log
"""

import re

REGISTRY = "zooming:tenants"
DELETIONS = "zooming:deletions"
IMPORTS = "zooming:imports"
CLOSER = "zooming:closer"

# Kind of key -> the arguments that follow it.
DERIVED: dict[str, tuple[str, ...]] = {
    "deleted": (),
    "staged": (),
    "balls": (),
    "path": (),
    "claims": (),
    "waiting": (),
    "ledger": (),
    "catalogue": (),
    "states": (),
    "contexts": (),
    "slots": (),
    "log": (),
    "curve": ("arm",),
    "arms": ("ball",),
    "forward": ("ball",),
    "asked": ("ball",),
    "cells": ("ball",),
    "samples": ("ball", "bucket"),
    "active": ("depth", "index"),
    "means": ("depth", "index"),
    "flagged": ("depth", "index"),
    "decisions": ("slot",),
    "pointer": ("decision_id",),
}
# Kinds of keys that never have a TTL, that always have one, and (the rest) those that have one
# before the split of their ball, or get one then.
PERMANENT = frozenset(DERIVED) - {"pointer", "forward", "arms", "staged"}
EXPIRING = frozenset({"pointer", "staged"})


def tenant(name: str) -> str:
    """The tenant's own hash."""
    return f"zooming:{{{name}}}"


def base(name: str, incarnation: str) -> str:
    """The prefix of everything else that the tenant has."""
    return f"{tenant(name)}:{incarnation}:"


def derived(base: str, kind: str, *parts: object) -> str:
    """A key below the base."""
    assert len(parts) == len(DERIVED[kind]), f"{kind} takes {DERIVED[kind]}"
    return base + ":".join([kind, *map(str, parts)])


def lua_library(text: str) -> str:
    """The table `key` with the kinds that the text uses: `key.arms(base, ball)` and so on."""
    base_of = 'tenant_key .. ":" .. incarnation .. ":"'
    lines = [
        "local key = {",
        f"  base = function(tenant_key, incarnation) return {base_of} end,",
    ]
    used = set(re.findall(r"\bkey\.(\w+)\(", text))
    for kind, parts in DERIVED.items():
        if kind not in used:
            continue
        arguments = ", ".join(("base", *parts))
        suffix = "".join(f' .. ":" .. {part}' for part in parts)
        lines.append(f'  {kind} = function({arguments}) return base .. "{kind}"{suffix} end,')
    lines.append("}")
    return "\n".join(lines) + "\n"
