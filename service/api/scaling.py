"""The scale of a tenant's contexts at a select, where it is still being learned too."""

from collections.abc import Iterable, Sequence

from service.algorithm.scales import Auto, Ranks, Scale
from service.api.context import Context
from service.errors import StaleTenant
from service.store import Tenant


async def scales_of(
    here: Context, tenant: Tenant, contexts: Sequence[float], *, now_ms: int
) -> Iterable[Scale]:
    """The scale for each of these contexts, which are noted for it if it is still to be learned.

    When there are enough of them, the tenant gets the scale that they make, for ever.
    """
    scale = tenant.context_scale
    if not isinstance(scale, Auto):
        return [scale] * len(contexts)
    seen = await here.store.gather(tenant, contexts, now_ms=now_ms)
    learned = scale.scale(seen)
    if isinstance(learned, Ranks):
        return scale.in_turn(seen, contexts)
    settings = {"context_scale": learned.setting()}
    await here.store.directory.revise(tenant, settings=settings, now_ms=now_ms)
    await here.store.forget_contexts(tenant)
    raise StaleTenant(tenant.name)
