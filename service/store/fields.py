"""What a tenant's own hash holds: what is written at its creation, and at each revision."""

from typing import Any

import numpy as np

from service.algorithm import AdaptiveConfig, AnyConfig, Interval
from service.store.access import pack_keys
from service.store.children import ball_record
from service.store.records import ModelRecord
from service.store.tenant import Tenant

# The form of all that is kept of a tenant: one more for each change that others cannot read.
FORM = 9


def first_fields(tenant: Tenant) -> dict[str, Any]:
    """All that a new tenant has."""
    return {
        "revision": tenant.revision,
        "arms": tenant.config.arms,
        "arms_ever": tenant.config.arms,
        "root_arms": tenant.config.arms,
        "comparison": new_comparison(tenant),
        **kept_fields(tenant),
        **_constants(tenant.config),
    }


def kept_fields(tenant: Tenant) -> dict[str, Any]:
    """What the tenant's hash keeps of its settings and keys; written anew at each revision."""
    default = tenant.settings["default_reward"]
    return {
        "form": FORM,
        "keys": pack_keys(tenant.keys),
        "document": tenant.document(),
        "window_ms": tenant.window_ms,
        "retention_ms": tenant.retention_ms,
        "slot_ms": tenant.slot_ms,
        "section_ms": tenant.section_ms,
        "created_at_ms": tenant.created_at_ms,
        "preset": tenant.settings["preset"],
        "low": repr(tenant.reward_scale.low),
        "span": repr(tenant.reward_scale.span),
        "default_reward": "" if default is None else repr(float(default)),
        "log_entries": tenant.settings["log_entries"],
    }


def new_comparison(tenant: Tenant) -> bytes:
    """Where the rewards of the holdout are added up beside all others, if there is one."""
    return bytes(48) if tenant.settings["holdout"] else b""


def _constants(config: AnyConfig) -> dict[str, Any]:
    """What the steps of a request need to know, as the preset has it."""
    if isinstance(config, AdaptiveConfig):
        model = ModelRecord(
            fresh=config.arms,
            variance=config.first_variance,
            shown_lipschitz=config.first_lipschitz,
            horizon=config.first_horizon,
        )
        return {
            "noise": "auto" if config.noise is None else repr(config.noise),
            "horizon": config.horizon or "",
            "lipschitz": "auto" if config.lipschitz is None else repr(config.lipschitz),
            "confidence": repr(config.confidence_coefficient),
            "max_depth": config.max_depth,
            "model": model.pack(),
        }
    parameters = config.parameters
    return {
        "confidence": repr(parameters.confidence),
        "buckets": parameters.buckets,
        "patience": parameters.patience,
        "sampling": parameters.sampling,
    }


def root_of(config: AnyConfig) -> tuple[bytes, bytes]:
    """The root's record and arm set, where it has them."""
    if isinstance(config, AdaptiveConfig):
        return b"", b""
    record = ball_record(config, Interval(0, 0), arms=config.arms)
    return record.pack(), np.arange(config.arms, dtype="<u4").tobytes()
