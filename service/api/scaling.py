"""The scale of a tenant's contexts at a select, where it is still being learned too."""

from collections.abc import Sequence

from service.algorithm.scales import Auto, Quantiles, Scale
from service.api.context import Context
from service.errors import StaleTenant
from service.store import Tenant


async def scale_of(
    here: Context, tenant: Tenant, contexts: Sequence[float], *, now_ms: int
) -> Scale:
    """The scale for these contexts, which are noted for it if it is still to be learned.

    When there are enough of them, the tenant gets the scale that they make, for ever.
    """
    scale = tenant.context_scale
    if not isinstance(scale, Auto):
        return scale
    found = scale.scale(await here.store.gather(tenant, contexts, now_ms=now_ms))
    if isinstance(found, Quantiles):
        settings = {"context_scale": found.setting()}
        await here.store.directory.revise(tenant, settings=settings, now_ms=now_ms)
        await here.store.forget_contexts(tenant)
        raise StaleTenant(tenant.name)
    return found
