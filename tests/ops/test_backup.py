"""Backup of a busy store and its restoring: nothing that was acknowledged before is missing.

Both kinds of store: the private one, and the Valkey of Compose, started by Compose's own command.
"""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from service.embedded import PrivateStore
from tests.support.audit import audit
from tests.support.load import Client, Load, Trial, new_tenants
from tests.support.servers import Service, free_port, kill, running_service, wait_for

OPS = Path(__file__).parents[2] / "ops"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run(installed_path: str, need: Callable[[str], str]) -> Run:
    """Runs a script of ops/ with the installed tools, whatever servers the test lets be found."""
    need("redis-cli")
    need("flock")

    def script(name: str, *words: object, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [OPS / name, *map(str, words)],
            env=os.environ | {"PATH": installed_path} | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    return script


def succeed(outcome: "subprocess.CompletedProcess[str]") -> str:
    """What a script said that went well."""
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def refuse(outcome: "subprocess.CompletedProcess[str]") -> str:
    """Why a script refused."""
    assert outcome.returncode == 1, outcome.stdout
    return outcome.stderr


def begin_at_once(client: "redis.Redis") -> None:
    """A store waits some seconds for other replicas before it sends a snapshot; here none come."""
    client.config_set("repl-diskless-sync-delay", 0)


@pytest.fixture
def backup(run: Run, server: Path, tmp_path: Path) -> Path:
    """A backup of a private store with 100 keys."""
    folder = tmp_path / "small"
    with PrivateStore(folder) as store, redis.Redis.from_url(store.url) as client:
        begin_at_once(client)
        client.mset({f"key {i}": f"value {i}" for i in range(100)})
        assert "100 keys" in succeed(run("backup.sh", folder, tmp_path / "backups"))
    [made] = (tmp_path / "backups").iterdir()
    assert made.stat().st_mode & 0o777 == 0o600
    return made


# -- a live service


@contextmanager
def compose_store(
    folder: Path, *, server: Path, compose: dict[str, Any], path: str
) -> Iterator[str]:
    """The URL of a store that runs by the command of Compose's Valkey, with `folder` as /data."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    known = {"valkey-server": str(server)}
    command = [
        known.get(word, word).replace("/data", str(folder))
        for word in compose["services"]["valkey"]["command"]
    ]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--bind", "127.0.0.1"],
        env=os.environ | {"PATH": path},
        stdout=subprocess.DEVNULL,
    )
    url = f"redis://127.0.0.1:{port}/0"
    try:
        with closing(redis.Redis.from_url(url)) as client:
            wait_for(lambda: _answers(client), what="Compose's store")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def back_up_under_load(
    run: Run, service: Service, *, store: str, client: "redis.Redis", to: Path
) -> tuple[Load, list[Trial]]:
    """The load that went on meanwhile, and what had been acknowledged when the backup began."""
    begin_at_once(client)
    with Load(service.url, new_tenants(service)) as load:
        load.wait_for_trials(150)
        before = list(load.trials)
        succeed(run("backup.sh", store, to))
        load.wait_for_trials(50)
    assert load.statuses.keys() == {200}, "the backup was noticed"
    return load, before


def hold(service: Service, *, load: Load, before: Sequence[Trial], client: "redis.Redis") -> None:
    """The restored service remembers all from before the backup, whole and counted once."""
    assert audit(client) == 2
    counted = {tenant: service.counters(tenant) for tenant in {t.tenant for t in before}}
    least, most = Counter(t.tenant for t in before), Counter(t.tenant for t in load.trials)
    for tenant, counters in counted.items():
        assert least[tenant] <= counters["rewards_applied"] < most[tenant]
    repeat(service, before)
    for tenant, counters in counted.items():
        assert service.counters(tenant)["rewards_applied"] == counters["rewards_applied"]
        assert service.counters(tenant)["splits"] == counters["splits"] > 0


def repeat(service: Service, trials: Sequence[Trial]) -> None:
    """Every trial gets the answers that it got at first."""
    with closing(Client(lambda: service.url)) as client:
        for trial in trials:
            assert client.insist("/select", trial.select_body) == trial.selection
            assert client.insist("/reward", trial.reward_body)["status"] == "duplicate"


def test_busy_private_store_is_restored(run: Run, server: Path, tmp_path: Path) -> None:
    """And what is learned after that is kept as well, through a kill of the store."""
    old, new, backups = tmp_path / "old", tmp_path / "new", tmp_path / "backups"
    old.mkdir()
    new.mkdir()
    with running_service(old) as service, service.store_client() as client:
        load, before = back_up_under_load(
            run, service, store=str(old / "data"), client=client, to=backups
        )
    [made] = backups.iterdir()
    succeed(run("restore.sh", made, new / "data"))
    with running_service(new) as service, service.store_client() as client:
        hold(service, load=load, before=before, client=client)
        with Load(service.url, sorted({trial.tenant for trial in before})) as later:
            later.wait_for_trials(20)
        assert len(later.trials) >= 20
        kill([service.store() or 0])
        repeat(service, [*before[:20], *later.trials])


def test_busy_store_of_compose_is_restored(
    run: Run, server: Path, compose: dict[str, Any], installed_path: str, tmp_path: Path
) -> None:
    """By its URL, and back into its volume from standard input while nothing runs on it."""
    volume, backups = tmp_path / "volume", tmp_path / "backups"

    def store() -> AbstractContextManager[str]:
        return compose_store(volume, server=server, compose=compose, path=installed_path)

    with (
        store() as url,
        running_service(tmp_path, redis_url=url) as service,
        redis.Redis.from_url(url) as client,
    ):
        load, before = back_up_under_load(run, service, store=url, client=client, to=backups)
        [made] = backups.iterdir()
        assert "in use" in refuse(run("restore.sh", "--replace", made, volume))
    with made.open("rb") as backup:
        subprocess.run(
            [OPS / "restore.sh", "--replace", "-", volume],
            env=os.environ | {"PATH": installed_path},
            stdin=backup,
            check=True,
        )
    with (
        store() as url,
        running_service(tmp_path, redis_url=url) as service,
        redis.Redis.from_url(url) as client,
    ):
        hold(service, load=load, before=before, client=client)


# -- what is refused


def cut(file: bytes) -> bytes:
    return file[: len(file) * 2 // 3]


def flip(file: bytes) -> bytes:
    middle = file.index(b"value 50") + len("value ")
    return file[:middle] + b"6" + file[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flip, lambda file: file[:0]])
def test_damaged_backup_is_refused(
    run: Run, backup: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    bad, folder = tmp_path / "bad.rdb", tmp_path / "small"
    bad.write_bytes(damage(backup.read_bytes()))
    before = sorted(folder.rglob("*"))
    reason = refuse(run("restore.sh", "--replace", bad, folder))
    assert "is damaged" in reason
    assert f"{bad} was not restored" in reason
    assert sorted(folder.rglob("*")) == before
    refuse(run("check-rdb.sh", bad))
    assert "100 keys" in succeed(run("check-rdb.sh", backup))


def test_store_in_use_is_not_overwritten(run: Run, backup: Path, tmp_path: Path) -> None:
    with PrivateStore(tmp_path / "small") as store:
        reason = refuse(run("restore.sh", "--replace", backup, tmp_path / "small"))
        assert "in use" in reason
        with redis.Redis.from_url(store.url) as client:
            assert client.dbsize() == 100


def test_data_is_replaced_only_when_told_and_kept_aside(
    run: Run, backup: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "small"
    old = {file.name: file.read_bytes() for file in (folder / "appendonlydir").iterdir()}
    assert "--replace" in refuse(run("restore.sh", backup, folder))
    assert old == {file.name: file.read_bytes() for file in (folder / "appendonlydir").iterdir()}
    succeed(run("restore.sh", "--replace", backup, folder))
    [aside] = folder.glob("appendonlydir.before-*")
    assert old == {file.name: file.read_bytes() for file in aside.iterdir()}
    with PrivateStore(folder) as store, redis.Redis.from_url(store.url) as client:
        assert client.dbsize() == 100


def test_backup_is_never_overwritten(run: Run, server: Path, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    now = datetime.now(UTC)
    for seconds in range(60):
        taken = now + timedelta(seconds=seconds)
        (backups / f"zooming-{taken:%Y%m%dT%H%M%SZ}.rdb").write_text("an earlier one")
    with PrivateStore(tmp_path / "data") as store, redis.Redis.from_url(store.url) as client:
        begin_at_once(client)
        assert "exist already" in refuse(run("backup.sh", tmp_path / "data", backups))
    assert {file.read_text() for file in backups.iterdir()} == {"an earlier one"}
    assert len(list(backups.iterdir())) == 60


def test_interrupted_backup_leaves_nothing(
    run: Run, server: Path, installed_path: str, tmp_path: Path
) -> None:
    backups = tmp_path / "backups"
    with PrivateStore(tmp_path / "data"):
        process = subprocess.Popen(
            [OPS / "backup.sh", tmp_path / "data", backups],
            env=os.environ | {"PATH": installed_path},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(lambda: list(backups.glob(".backup-*.log")), what="the transfer")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) != 0
    assert list(backups.iterdir()) == []


def test_folder_without_a_running_store_is_told(run: Run, tmp_path: Path) -> None:
    assert "Is that the data folder" in refuse(run("backup.sh", tmp_path, tmp_path / "backups"))
    assert not (tmp_path / "backups").exists()


def test_store_that_does_not_answer_is_told(run: Run, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    assert "sent no snapshot" in refuse(run("backup.sh", url, tmp_path / "backups"))
    assert list((tmp_path / "backups").iterdir()) == []


def test_missing_client_is_told(run: Run, need: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "dirname").symlink_to(need("dirname"))
    reason = refuse(run("backup.sh", tmp_path, tmp_path, PATH=str(tmp_path)))
    assert "apt-get install redis-tools" in reason
