"""What the calls take and answer that change a tenant: its settings, its keys.

A setting that is structural decides what was learned and how it is kept: with another value, what
the tenant knows would be wrong. Only a new tenant can have it otherwise.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from service.api.schemas import LogEntries, Reward, Seconds, Share, SplitWait, TenantConfig
from service.api.strict import Strict

KeyId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["k1f9a8c33"])]

_STRUCTURAL = (
    "{field}: it decides what is learned, so it cannot be changed: create a new tenant; what can "
    "be changed: {others}"
)
_KEPT = (
    "{field}: the decisions that there are were promised it, and are kept by it, so it cannot be "
    "changed: create a new tenant; what can be changed: {others}"
)
_ARMS = (
    "{field}: arms are added, paused and retired under /tenants/TENANT/arms, or create a new tenant"
)

_REASONS = {"arms": _ARMS, "reward_window_seconds": _KEPT, "retention_seconds": _KEPT}


def _left_out() -> Any:
    """What is left out stays as it is; a factory, so that the docs show no default."""
    return Field(default_factory=lambda: None)


class TenantChanges(Strict):
    """Every setting that is not structural; those that are sent are changed."""

    default_reward: Reward | None = _left_out()
    exploration_floor: Share = _left_out()
    holdout: Share = _left_out()
    log_entries: LogEntries = _left_out()
    split_wait_ms: SplitWait = _left_out()

    @model_validator(mode="before")
    @classmethod
    def _nothing_structural(cls, sent: Any) -> Any:
        for name in sent if isinstance(sent, dict) else ():
            if name in TenantConfig.model_fields and name not in cls.model_fields:
                message = _REASONS.get(name, _STRUCTURAL)
                about = {"field": name, "others": ", ".join(cls.model_fields)}
                raise PydanticCustomError("structural", message, about)
        return sent

    def sent(self) -> dict[str, Any]:
        """The settings to change."""
        return self.model_dump(exclude_unset=True)


class KeyRequest(Strict):
    """How long a new key opens the tenant."""

    expires_in_seconds: Seconds | None = Field(
        default=None, description="Left out: until it is revoked"
    )


class KeyCreated(BaseModel):
    """A new key, shown this once."""

    key_id: str
    api_key: str
    expires_at: datetime | None
