"""All of Redis: the keys, the records, the steps, and a typed function in front of each."""

from service.decision_ids import new_decision_id
from service.store.access import MOST_LIVE_KEYS, TenantKey, live_keys
from service.store.children import Children, pack_children
from service.store.connection import ServerState
from service.store.export_file import lines_of
from service.store.exporting import Export
from service.store.partition import PartitionBall
from service.store.records import BallRecord, DecisionRecord, ModelRecord
from service.store.stats import TenantStats
from service.store.store import (
    LEASE_MS,
    Choice,
    Rewarded,
    Selected,
    Store,
    Wanted,
    new_attempt,
)
from service.store.tenant import LIVE, PAUSED, RETIRED, Tenant
from service.store.uplift import Uplift

__all__ = [
    "LEASE_MS",
    "LIVE",
    "MOST_LIVE_KEYS",
    "PAUSED",
    "RETIRED",
    "BallRecord",
    "Children",
    "Choice",
    "DecisionRecord",
    "Export",
    "ModelRecord",
    "PartitionBall",
    "Rewarded",
    "Selected",
    "ServerState",
    "Store",
    "Tenant",
    "TenantKey",
    "TenantStats",
    "Uplift",
    "Wanted",
    "lines_of",
    "live_keys",
    "new_attempt",
    "new_decision_id",
    "pack_children",
]
