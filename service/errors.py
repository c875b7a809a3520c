"""Everything that can go wrong, as one tree; `api/problems.py` maps it to HTTP in one place.

ZoomingError
├── StoreStartError        the private store cannot start
├── StoreUnsuitable        the store given cannot be used
├── BadSetting             a setting has a value that cannot be used
├── BadLog                 a decision log cannot be read
├── StoreUnavailable       503: the store cannot be reached or refuses
├── TenantFrozen           503: the tenant is being exported
├── ExportBroken           an export cannot go on (its last line says why)
├── StaleTenant            the caller's view of a tenant is out of date (never leaves the service)
└── Refusal                the caller's doing; `detail` says what to do
    ├── Unauthenticated    401
    ├── Forbidden          403
    ├── UnknownTenant      404
    ├── UnknownKey         404
    ├── UnknownDecision    404
    ├── UnknownArm         404
    ├── Conflict           409
    │   └── Exists         there is such a tenant already
    ├── Late               410
    ├── Invalid            422
    └── BadExport          422
"""

from typing import ClassVar


class ZoomingError(Exception):
    """The root of the tree."""


class StoreStartError(ZoomingError):
    """The private store cannot start; the message says what to do."""


class StoreUnsuitable(ZoomingError):
    """The store was reached and cannot be used as it is; the message says what to change."""


class BadSetting(ZoomingError):
    """A setting has a value that cannot be used; the message names it."""


class BadLog(ZoomingError):
    """A decision log cannot be read; the message names the line."""


class StoreUnavailable(ZoomingError):
    """The store cannot be reached, does not answer in time, or refuses."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "The store is not available"
    retry_after_seconds: ClassVar[int] = 1

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind


class TenantFrozen(ZoomingError):
    """The tenant is being exported, and nothing of it may change meanwhile."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "The tenant is being exported"
    retry_after_seconds: ClassVar[int] = 1


class ExportBroken(ZoomingError):
    """The export cannot go on; the message says why."""


class StaleTenant(ZoomingError):
    """The tenant changed since the caller read it: read it again."""


class Refusal(ZoomingError):
    """A request that is refused; nothing was written."""

    status: ClassVar[int]
    title: ClassVar[str]

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Unauthenticated(Refusal):
    """No key was given where one is needed."""

    status = 401
    title = "A key is needed"


class Forbidden(Refusal):
    """The key given does not open this."""

    status = 403
    title = "This key does not open that"


class UnknownTenant(Refusal):
    """There is no such tenant."""

    status = 404
    title = "Unknown tenant"

    def __init__(self, tenant: str) -> None:
        super().__init__(f"There is no tenant '{tenant}'; create it with PUT /tenants/{tenant}.")


class UnknownKey(Refusal):
    """The tenant has no key of this id."""

    status = 404
    title = "Unknown key"

    def __init__(self, tenant: str) -> None:
        super().__init__(
            f"The tenant '{tenant}' has no key of this id; GET /tenants/{tenant} lists its keys."
        )


class UnknownDecision(Refusal):
    """There is no such decision, or no longer."""

    status = 404
    title = "Unknown decision"

    def __init__(self) -> None:
        super().__init__(
            "This tenant has no decision of this id; it may be past its window and retention."
        )


class UnknownArm(Refusal):
    """The tenant has no such arm, or no longer."""

    status = 404
    title = "Unknown arm"

    def __init__(self, tenant: str, arm: str) -> None:
        super().__init__(
            f"The tenant '{tenant}' has no arm '{arm}'; add it with PUT /tenants/{tenant}/arms/…"
        )


class Conflict(Refusal):
    """The request contradicts what is already so."""

    status = 409
    title = "Conflict"


class Exists(Conflict):
    """There is such a tenant already."""

    def __init__(self, tenant: str) -> None:
        super().__init__(f"The tenant '{tenant}' exists; delete it first, or use another name.")


class Late(Refusal):
    """The reward came after its window."""

    status = 410
    title = "Too late"


class Invalid(Refusal):
    """The request does not fit the tenant, which its form alone could not tell."""

    status = 422
    title = "The request is not valid"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class BadExport(Refusal):
    """What was to be imported is no export, or not all of it."""

    status = 422
    title = "This cannot be imported"
