"""What a call can fail with, as one tree. The message is the service's own `detail`.

ZoomingClientError
├── NoAnswer               none came, also after the retries; the call may have been done or not
├── Unreadable             what answers at this address is not the service, or not as it should
├── Failed                 5xx
│   └── Unavailable        503, also after the retries
└── Refusal                the caller's doing; nothing was changed
    ├── Unauthenticated    401
    ├── Forbidden          403
    ├── NotFound           404: no such tenant, decision, arm or key
    ├── Conflict           409
    ├── Late               410
    └── Invalid            413, 422
"""

from service.client.answers import Problem
from service.errors import ZoomingError


class ZoomingClientError(ZoomingError):
    """The root of the tree."""

    def __init__(
        self, message: str, *, status: int | None = None, problem: Problem | None = None
    ) -> None:
        super().__init__(message)
        self.status = status  # none when there was no answer
        self.problem = problem


class NoAnswer(ZoomingClientError):
    """No answer came, so nobody knows whether the call was done."""


class Unreadable(ZoomingClientError):
    """An answer came that is none of the service's."""


class Failed(ZoomingClientError):
    """The service, or something before it, could not do the call."""


class Unavailable(Failed):
    """The store could not be reached or refused; nothing that was acknowledged is lost."""


class Refusal(ZoomingClientError):
    """The service would not do the call; the message says what to do."""


class Unauthenticated(Refusal):
    """No key was given where one is needed."""


class Forbidden(Refusal):
    """The key given does not open this."""


class NotFound(Refusal):
    """There is no such thing, or no longer."""


class Conflict(Refusal):
    """The call contradicts what is already so."""


class Late(Refusal):
    """The reward came after its window."""


class Invalid(Refusal):
    """The call is not one that the service takes."""


_KINDS: dict[int, type[ZoomingClientError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Late,
    413: Invalid,
    422: Invalid,
    503: Unavailable,
}


def kind_of(status: int) -> type[ZoomingClientError]:
    """The error that stands for a status."""
    return _KINDS.get(status, Failed if status >= 500 else Refusal)
