"""A client of the service: `Client`, and `AsyncClient` for asyncio, over httpx.

    with Client("http://127.0.0.1:8000") as client:
        chosen = client.select("shop", context=0.42)
        client.reward("shop", decision_id=chosen.decision_id, reward=1.0)

Every call is tried again where that is safe, and then counts once. It needs none of the service's
own parts: neither FastAPI nor Redis nor numpy.
"""

from service.client.answers import (
    Arm,
    Arms,
    Ball,
    Censored,
    Decision,
    FieldError,
    Key,
    LogEvent,
    NewKey,
    Partition,
    Problem,
    Refused,
    RewardAnswer,
    Rewarded,
    Rewards,
    Selection,
    Selections,
    TenantCreated,
    TenantList,
    TenantState,
)
from service.client.asynchronous import AsyncClient
from service.client.batches import AsyncRewardBatches, RewardBatches
from service.client.calls import RewardItem, SelectItem, TenantChanges, TenantConfig
from service.client.errors import (
    Conflict,
    Failed,
    Forbidden,
    Invalid,
    Late,
    NoAnswer,
    NotFound,
    Refusal,
    Unauthenticated,
    Unavailable,
    Unreadable,
    ZoomingClientError,
)
from service.client.sync import Client
from service.client.tries import Retry

__all__ = [
    "Arm",
    "Arms",
    "AsyncClient",
    "AsyncRewardBatches",
    "Ball",
    "Censored",
    "Client",
    "Conflict",
    "Decision",
    "Failed",
    "FieldError",
    "Forbidden",
    "Invalid",
    "Key",
    "Late",
    "LogEvent",
    "NewKey",
    "NoAnswer",
    "NotFound",
    "Partition",
    "Problem",
    "Refusal",
    "Refused",
    "Retry",
    "RewardAnswer",
    "RewardBatches",
    "RewardItem",
    "Rewarded",
    "Rewards",
    "SelectItem",
    "Selection",
    "Selections",
    "TenantChanges",
    "TenantConfig",
    "TenantCreated",
    "TenantList",
    "TenantState",
    "Unauthenticated",
    "Unavailable",
    "Unreadable",
    "ZoomingClientError",
]
