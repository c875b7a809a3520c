"""The steps as functions of the server: what is there, and what a full server still does."""

import asyncio
from typing import Any

import pytest

from service.errors import StoreUnavailable
from service.store import steps
from tests.support.engine import engine

BODY: dict[str, Any] = {"arms": 3, "noise": 0.1}
OURS = {step: {steps.function_of(step, rule) for rule in steps.RULES} for step in steps.STEPS}
OLD = "zooming_select_of_another_version"
FOREIGN = "not_ours"


def library(name: str) -> str:
    """A function that does nothing."""
    return f"#!lua name={name}\nredis.register_function('{name}', function() return 1 end)"


def names(raw: Any) -> set[str]:
    """The libraries that the server keeps."""
    return {entry[1].decode() for entry in raw.function_list()}


def test_a_start_loads_all_steps_and_drops_those_of_other_versions(
    store_url: str, raw: Any
) -> None:
    """And leaves alone what is not the service's."""
    ours = {steps.function_of(step, rule).name for step in steps.STEPS for rule in steps.RULES}

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            await made.store.install()
            assert names(raw) == ours | {FOREIGN}
            raw.function_delete(sorted(ours)[0])
            await made.store.install()
            assert names(raw) == ours | {FOREIGN}

    raw.function_flush()
    for name in (OLD, FOREIGN):
        raw.function_load(library(name))
    try:
        asyncio.run(run())
    finally:
        raw.function_delete(FOREIGN)


def test_steps_of_both_rules_are_kept_once_where_they_are_the_same() -> None:
    """And apart where they are not."""
    same = {
        step for step in steps.STEPS if len({steps.function_of(step, r) for r in steps.RULES}) == 1
    }
    assert {"stats", "delete", "create"} <= same
    assert not same & {"select", "reward", "change_arm"}


def test_a_full_store_tells_how_it_is_and_gives_memory_back(store_url: str, raw: Any) -> None:
    """A tenant is deleted, though no decision is taken and no step loaded."""

    async def run() -> None:
        async with engine(store_url, BODY) as made:
            await made.store.install()
            await made.reward((await made.select(0.5)).decision_id, 1.0)
            raw.function_load(library(OLD), replace=True)
            raw.config_set("maxmemory", 1)
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await made.select(0.5)
            stats = await made.store.directory.stats(made.tenant, now_ms=made.clock[0])
            assert stats.counters["rewards_applied"] == 1
            raw.function_delete(steps.function_of("adopt").name)
            await made.store.install()
            assert steps.function_of("adopt").name not in names(raw)
            assert OLD in names(raw), "what is there may be all that another version has"
            await made.store.directory.delete(made.tenant.name, incarnation=made.tenant.incarnation)

    try:
        asyncio.run(run())
    finally:
        raw.config_set("maxmemory", 0)
        raw.function_delete(OLD)
    assert raw.keys() == []
