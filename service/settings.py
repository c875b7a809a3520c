"""How a service is set up: flags over `ZOOMING_…` variables over the defaults here."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from service.errors import BadSetting

PREFIX = "ZOOMING_"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
APPENDFSYNC = ("always", "everysec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings; `redis_url` empty means a private store in `data`."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    data: Path = Path("zooming-data")
    redis_url: str = ""
    appendfsync: str = "always"
    admin_key: str = ""
    max_body_bytes: int = 16 * 1024 * 1024
    metrics_key: str = ""
    metrics_tenants: int = 100

    def __post_init__(self) -> None:
        if not self.admin_key and self.host not in LOOPBACK:
            raise BadSetting(
                f"Without ZOOMING_ADMIN_KEY anyone may do anything, so the service binds loopback "
                f"only, not '{self.host}'. Set ZOOMING_ADMIN_KEY, or use --host 127.0.0.1."
            )
        if self.appendfsync not in APPENDFSYNC:
            raise BadSetting(f"ZOOMING_APPENDFSYNC must be one of {', '.join(APPENDFSYNC)}.")
        for name in ("workers", "max_body_bytes", "metrics_tenants"):
            if getattr(self, name) < 1:
                raise BadSetting(f"{PREFIX}{name.upper()} must be at least 1.")
        for name in ("admin_key", "metrics_key"):
            if not getattr(self, name).isascii():
                raise BadSetting(
                    f"{PREFIX}{name.upper()} must be ASCII: it travels in an HTTP header."
                )

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None) -> "Settings":
        """From the environment, with the flags that are not `None` laid over it."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = os.environ.get(PREFIX + field.name.upper())
            if text:
                values[field.name] = _parse(field.name, text, like=field.default)
        values |= {name: value for name, value in (flags or {}).items() if value is not None}
        return cls(**values)

    def environment(self) -> dict[str, str]:
        """The variables from which a worker process loads these settings again."""
        return {PREFIX + name.upper(): str(value) for name, value in asdict(self).items()}


def _parse(name: str, text: str, *, like: Any) -> Any:
    try:
        return type(like)(text) if not isinstance(like, Path) else Path(text)
    except ValueError as error:
        raise BadSetting(f"{PREFIX}{name.upper()} must be a number, not '{text}'.") from error
