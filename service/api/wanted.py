"""What selects ask for, in the store's terms, and whether it fits the tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.algorithm.scales import OutsideScale, Scale, Unit
from service.api.context import Context
from service.api.decision_schemas import SelectItem
from service.api.scaling import scales_of
from service.errors import Invalid
from service.store import LIVE, Selected, Tenant, Wanted

# Of no arm: the store plays none, and tells what it has decided under that id before.
_NONE: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a select asks for; where it does not fit the tenant, nothing new is decided.

    The arms that it names may have been there when it was sent first.
    """

    wanted: Wanted
    misfit: Invalid | None = None

    def refusal(self, selected: Selected) -> Invalid | None:
        """What it is told, unless this is the answer that its id got before."""
        return None if selected.status == "selected" else self.misfit


async def all_asked(
    here: Context, tenant: Tenant, ids: Sequence[str], items: Sequence[SelectItem], *, now_ms: int
) -> list[Asked]:
    """What is asked for by items that come one after the other, under these ids."""
    unknown = [_unknown_arm(tenant, item) for item in items]
    # A scale that is being learned learns nothing from what is not decided.
    contexts = [item.context for item, misfit in zip(items, unknown, strict=True) if not misfit]
    scales = iter(await scales_of(here, tenant, contexts, now_ms=now_ms))
    return [
        _asked_in_vain(decision_id, item, misfit)
        if misfit
        else _asked(tenant, decision_id, item, scale=next(scales))
        for decision_id, item, misfit in zip(ids, items, unknown, strict=True)
    ]


def _unknown_arm(tenant: Tenant, item: SelectItem) -> Invalid | None:
    unknown = next((arm for arm in item.eligible or () if arm not in tenant.arms), None)
    if unknown is None:
        return None
    return Invalid("eligible", f"There is no arm '{unknown}'; see GET /tenants/{tenant.name}/arms.")


def _asked_in_vain(decision_id: str, item: SelectItem, misfit: Invalid) -> Asked:
    context = item.context + 0.0
    wanted = Wanted(decision_id=decision_id, x=context, raw=context, eligible=_NONE, n=item.n)
    return Asked(wanted, misfit)


def _asked(tenant: Tenant, decision_id: str, item: SelectItem, *, scale: Scale) -> Asked:
    # -0.0 is a legal way to write 0; elsewhere it would be another context.
    context = item.context + 0.0
    try:
        x = scale(context)
    except OutsideScale as error:
        return _asked_in_vain(decision_id, item, Invalid("context", str(error)))
    eligible = None
    if item.eligible is not None:
        named = {tenant.arms[arm] for arm in item.eligible}
        eligible = sorted(arm for arm in named if tenant.arm_states[arm] == LIVE)
    raw = None if isinstance(scale, Unit) else context
    return Asked(Wanted(decision_id=decision_id, x=x, raw=raw, eligible=eligible, n=item.n))
