"""What `zooming tenants` does: each action a function of the client and the flags of its own.

It prints what a person wants to know; what goes wrong is raised.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast

from service.client import (
    Client,
    Forbidden,
    Key,
    Retry,
    TenantChanges,
    TenantConfig,
    Unauthenticated,
)
from service.errors import BadSetting, ExportBroken
from service.tenants_command import STDIO

_SETTINGS = TenantConfig.__required_keys__ | TenantConfig.__optional_keys__
_CHUNK_BYTES = 1 << 16
_LONGEST_VALUE = 100
# A large tenant takes its time to be frozen, and to be adopted.
_PATIENCE_SECONDS = 600.0
_RETRY = Retry(tries=4, seconds=_PATIENCE_SECONDS)
_SHOWN_SECONDS = 0.2
_WRITE_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def run(action: Callable[..., None], *, url: str, **flags: Any) -> None:
    """Runs an action with its flags."""
    key = os.environ.get("ZOOMING_ADMIN_KEY", "")
    with Client(url, key=key, retry=_RETRY, timeout_seconds=_PATIENCE_SECONDS) as client:
        try:
            action(client, **flags)
        except (Unauthenticated, Forbidden) as error:
            raise BadSetting(f"{error} It is taken from ZOOMING_ADMIN_KEY.") from error


# -- tenants


def list_tenants(client: Client) -> None:
    """The names of all tenants."""
    for name in client.tenants().tenants:
        print(name)


def show(client: Client, *, tenant: str, as_json: bool) -> None:
    """Settings, keys and counters of a tenant."""
    state = client.tenant(tenant)
    if as_json:
        print(json.dumps(asdict(state), default=datetime.isoformat))
        return
    print(f"{tenant}, created {_time(state.created_at)}")
    _print_keys(state.keys or [])
    _print_table("settings", state.config)
    _print_table("counters", state.counters)


def create(
    client: Client, *, tenant: str, settings: Sequence[tuple[str, Any]], config: Path | None
) -> None:
    """A new tenant, and its key."""
    given = {**(_read_config(config) if config else {}), **_checked(settings)}
    made = client.create_tenant(tenant, **cast(TenantConfig, given))
    if made.api_key is None:
        print(f"{tenant} is there already, with these settings")
        return
    print(f"{tenant} is created; its key {made.key_id} is shown this once:")
    print(made.api_key)


def update(client: Client, *, tenant: str, settings: Sequence[tuple[str, Any]]) -> None:
    """Changes settings."""
    state = client.update_tenant(tenant, **cast(TenantChanges, _checked(settings)))
    _print_table(tenant, {name: state.config[name] for name, _ in settings})


def delete(client: Client, *, tenant: str, yes: bool) -> None:
    """Deletes a tenant, if that is really wanted."""
    if not yes:
        client.tenant(tenant)  # it is there
        if not sys.stdin.isatty():
            raise BadSetting(f"Add --yes to delete '{tenant}': nobody can be asked here.")
        if input(f"Deletes all that '{tenant}' has learned. Type its name: ").strip() != tenant:
            raise BadSetting("That is another name; nothing was deleted.")
    client.delete_tenant(tenant)
    print(f"{tenant} is deleted")


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadSetting(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadSetting(f"{path} must hold an object, with settings of a tenant.")
    return _checked(found.items())


def _checked(settings: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(settings)
    for name, value in found.items():
        if name not in _SETTINGS:
            raise BadSetting(f"'{name}' is no setting of a tenant.")
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise BadSetting(f"{name} has a value that no JSON has: {value}.") from error
    return found


# -- whole tenants


def export(client: Client, *, tenant: str, file: Path) -> None:
    """Writes a tenant to a file, which has its name when it is whole, and not before."""
    progress = _Progress(f"exporting {tenant}")
    if file == STDIO:
        _write(progress.over(client.export_tenant(tenant)), sys.stdout.buffer)
        progress.end()
        return
    if file.exists():
        raise BadSetting(f"{file} is there already; give another name, or remove it.")
    part = file.with_name(f"{file.name}.part")
    try:
        with _opened(part, "wb") as out:
            _write(progress.over(client.export_tenant(tenant)), out)
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    progress.end()


def _write(lines: Iterable[bytes], out: IO[bytes]) -> None:
    last = b""
    for line in lines:
        out.write(line)
        last = line
    out.flush()
    if not last.startswith(b'{"end"'):
        raise ExportBroken(f"The export broke off; export once more. It ended in: {_text(last)}")


def import_(client: Client, *, tenant: str, file: Path) -> None:
    """A new tenant from the file of an export."""
    progress = _Progress(f"importing {tenant}")
    with _opened(file, "rb") as source:
        chunks = iter(lambda: source.read(_CHUNK_BYTES), b"")
        client.import_tenant(tenant, lines=progress.over(chunks))
    progress.end()


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[IO[bytes]]:
    if file == STDIO:
        yield sys.stdin.buffer
        return
    try:
        # What was learned, and hashes of keys: nobody else's business.
        number = os.open(file, os.O_RDONLY if mode == "rb" else _WRITE_ANEW, 0o600)
    except OSError as error:
        raise BadSetting(f"{file} cannot be opened: {error.strerror}.") from error
    with os.fdopen(number, mode) as opened:
        yield cast("IO[bytes]", opened)


class _Progress:
    """How much has passed: on a terminal as it goes, elsewhere at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bytes = 0
        self._started = self._shown = time.monotonic()

    def over(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, counted."""
        for piece in pieces:
            self._bytes += len(piece)
            if sys.stderr.isatty() and time.monotonic() > self._shown + _SHOWN_SECONDS:
                self._shown = time.monotonic()
                print(f"\r{self._line()}", end="", file=sys.stderr, flush=True)
            yield piece

    def end(self) -> None:
        """Says that it is done."""
        seconds = time.monotonic() - self._started
        start = "\r" if sys.stderr.isatty() else ""
        print(f"{start}{self._line()} in {seconds:.1f} s, done", file=sys.stderr)

    def _line(self) -> str:
        return f"{self._what}: {self._bytes / 1e6:.1f} MB"


# -- keys and arms


def list_keys(client: Client, *, tenant: str) -> None:
    """The keys there are."""
    _print_keys(client.tenant(tenant).keys or [])


def new_key(client: Client, *, tenant: str, expires_in_seconds: float | None) -> None:
    """Another key."""
    made = client.new_key(tenant, expires_in_seconds=expires_in_seconds)
    until = f"until {_time(made.expires_at)}" if made.expires_at else "until it is revoked"
    print(f"{made.key_id} opens {tenant} {until}; it is shown this once:")
    print(made.api_key)


def revoke_key(client: Client, *, tenant: str, key_id: str) -> None:
    """Has a key open nothing any more."""
    client.revoke_key(tenant, key_id=key_id)
    print(f"{key_id} opens nothing any more")


def list_arms(client: Client, *, tenant: str) -> None:
    """The arms there are."""
    for arm in client.arms(tenant).arms:
        print(arm.arm if arm.state == "live" else f"{arm.arm}  ({arm.state})")


def add_arm(client: Client, *, tenant: str, arm: str) -> None:
    """Adds an arm."""
    client.add_arm(tenant, arm=arm)
    print(f"{tenant}: {arm} is added")


def pause_arm(client: Client, *, tenant: str, arm: str) -> None:
    """Has an arm not played."""
    client.pause_arm(tenant, arm=arm)
    print(f"{tenant}: {arm} is paused")


def resume_arm(client: Client, *, tenant: str, arm: str) -> None:
    """Has a paused arm played again."""
    client.resume_arm(tenant, arm=arm)
    print(f"{tenant}: {arm} is resumed")


def retire_arm(client: Client, *, tenant: str, arm: str) -> None:
    """Takes an arm out for good."""
    client.retire_arm(tenant, arm=arm)
    print(f"{tenant}: {arm} is retired")


# -- what a person reads


def _print_keys(keys: Sequence[Key]) -> None:
    for key in keys:
        until = f"expires {_time(key.expires_at)}" if key.expires_at else "until it is revoked"
        print(f"  key {key.key_id}  made {_time(key.created_at)}, {until}")


def _print_table(title: str, values: Mapping[str, Any]) -> None:
    print(f"{title}:")
    width = max(map(len, values), default=0)
    for name, value in values.items():
        print(f"  {name:<{width}}  {_text(json.dumps(value))}")


def _text(value: str | bytes) -> str:
    text = value.decode(errors="replace").strip() if isinstance(value, bytes) else value
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
