"""One step of the store by itself, as a caller that dies in between would leave it."""

from typing import Any

from service.store import steps


def run_step(raw: Any, step: str, key: str, *args: object) -> list[Any]:
    """The reply of the step, for a tenant of the presets that zoom."""
    function = steps.function_of(step)
    raw.function_load(function.text, replace=True)
    return list(raw.fcall(function.name, 1, key, *args))
