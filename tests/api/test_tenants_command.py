"""`zooming tenants`, against a live service: what it prints, and with which code it ends."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.__main__ import main
from tests.api.calls import ADMIN_KEY, CONFIG, balls_of, call
from tests.support.engine import new_name
from tests.support.servers import Service, free_port

SETTINGS = ["arms=3", "preset=simulation", "horizon=1000", "noise=0.1"]


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def tenants(
    guarded: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `zooming tenants …` against the service, with its admin key."""
    monkeypatch.setenv("ZOOMING_ADMIN_KEY", ADMIN_KEY)

    def run(*arguments: str) -> Ended:
        try:
            code = main(["tenants", *arguments, "--url", guarded.url])
        except SystemExit as error:
            code = int(error.code or 0)
        told = capsys.readouterr()
        assert ADMIN_KEY not in told.out + told.err
        return Ended(code, told.out, told.err)

    return run


def test_a_tenant_from_creation_to_deletion(tenants: Command, guarded: Service) -> None:
    name = new_name()
    created = tenants("create", name, *SETTINGS)
    assert (created.code, created.err) == (0, "")
    key = created.out.splitlines()[-1]
    assert key.startswith("zk_")
    body = {"tenant": name, "context": 0.5}
    assert call(guarded, "POST", "/select", body, key=key).status_code == 200
    again = tenants("create", name, *SETTINGS)
    assert again.code == 0
    assert "already" in again.out
    assert tenants("list").out.splitlines() == [name]
    shown = tenants("show", name).out
    for expected in (name, '"simulation"', "horizon", "trials_flagged", "until it is revoked"):
        assert expected in shown
    asked = tenants("delete", name)
    assert asked.code == 1
    assert "--yes" in asked.err
    assert tenants("delete", name, "--yes").out == f"{name} is deleted\n"
    assert tenants("list").out == ""


def test_what_is_shown_is_the_apis(tenants: Command, guarded: Service) -> None:
    name = new_name()
    tenants("create", name, *SETTINGS)
    shown = json.loads(tenants("show", name, "--json").out)
    told = call(guarded, "GET", f"/tenants/{name}", key=ADMIN_KEY).json()
    assert (shown["config"], shown["counters"]) == (told["config"], told["counters"])
    assert [key["key_id"] for key in shown["keys"]] == [key["key_id"] for key in told["keys"]]


def test_settings_from_a_file_and_over_it(tenants: Command, tmp_path: Path) -> None:
    name, file = new_name(), tmp_path / "shop.json"
    file.write_text(json.dumps(CONFIG | {"arms": ["red", "a b", "é"]}))
    assert tenants("create", name, "--config", str(file), "noise=0.2").code == 0
    config = json.loads(tenants("show", name, "--json").out)["config"]
    assert (config["arms"], config["noise"]) == (["red", "a b", "é"], 0.2)


def test_settings_are_changed(tenants: Command) -> None:
    name = new_name()
    tenants("create", name, *SETTINGS)
    changed = tenants("update", name, "split_wait_ms=7")
    assert changed.code == 0
    assert changed.out.split() == [f"{name}:", "split_wait_ms", "7"]
    structural = tenants("update", name, "horizon=5")
    assert structural.code == 1
    assert "new tenant" in structural.err


def test_keys_are_changed(tenants: Command, guarded: Service) -> None:
    name = new_name()
    first = tenants("create", name, *SETTINGS).out.splitlines()[-1]
    made = tenants("keys", "new", name, "--expires-in-seconds", "3600")
    assert made.code == 0
    second = made.out.splitlines()[-1]
    listed = tenants("keys", "list", name).out
    assert listed.count("key k") == 2
    assert listed.count("expires") == 1
    third = tenants("keys", "new", name)
    assert third.code == 1
    assert "two live keys" in third.err
    key_id = listed.split()[1]
    assert tenants("keys", "revoke", name, key_id).code == 0
    statuses = [
        call(guarded, "GET", f"/tenants/{name}", key=key).status_code for key in (first, second)
    ]
    assert statuses == [403, 200]
    assert tenants("keys", "revoke", name, key_id).code == 1


def test_arms_come_and_go(tenants: Command) -> None:
    name = new_name()
    tenants("create", name, 'arms=["red", "green"]')
    assert tenants("arms", "add", name, "a b/c").code == 0
    assert tenants("arms", "pause", name, "red").code == 0
    assert tenants("arms", "list", name).out.splitlines() == ["red  (paused)", "green", "a b/c"]
    assert tenants("arms", "resume", name, "red").code == 0
    assert tenants("arms", "retire", name, "green").code == 0
    assert tenants("arms", "list", name).out.splitlines() == ["red", "a b/c"]
    unknown = tenants("arms", "pause", name, "green")
    assert unknown.code == 1
    assert "green" in unknown.err


def test_a_tenant_is_moved_by_a_file(
    tenants: Command, guarded: Service, service: Service, tmp_path: Path
) -> None:
    """Readable for its owner alone, and never half of it under its name."""
    name, copy, file = new_name(), new_name(), tmp_path / "shop.ndjson"
    tenants("create", name, *SETTINGS)
    exported = tenants("export", name, str(file))
    assert (exported.code, exported.out) == (0, "")
    assert "done" in exported.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
    imported = tenants("import", copy, str(file))
    assert imported.code == 0, imported.err
    assert "done" in imported.err
    assert balls_of(service, copy) == balls_of(service, name)
    again = tenants("import", copy, str(file))
    assert again.code == 1
    assert "exists" in again.err
    over = tenants("export", name, str(file))
    assert over.code == 1
    assert "already" in over.err
    file.write_bytes(file.read_bytes()[:-50])
    cut = tenants("import", new_name(), str(file))
    assert cut.code == 1
    assert "too early" in cut.err


def test_a_failed_export_leaves_no_file(tenants: Command, tmp_path: Path) -> None:
    failed = tenants("export", new_name(), str(tmp_path / "shop.ndjson"))
    assert failed.code == 1
    assert list(tmp_path.iterdir()) == []
    nowhere = tenants("export", new_name(), str(tmp_path / "no" / "shop.ndjson"))
    assert nowhere.code == 1
    assert "cannot be opened" in nowhere.err


def test_a_tenant_goes_through_a_pipe(guarded: Service, tenants: Command) -> None:
    """Standard output and standard input, where no file is named."""
    name, copy = new_name(), new_name()
    tenants("create", name, *SETTINGS)

    def piped(*arguments: str, content: bytes = b"") -> bytes:
        command = [sys.executable, "-m", "service", "tenants", *arguments, "--url", guarded.url]
        done = subprocess.run(command, input=content, capture_output=True, timeout=60, check=True)
        return done.stdout

    assert piped("import", copy, content=piped("export", name)) == b""
    assert tenants("list").out.split() == sorted([name, copy])


@pytest.mark.parametrize("key", ["", "zk_garbage"])
def test_a_missing_or_wrong_key_is_told(
    tenants: Command, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ZOOMING_ADMIN_KEY", key)
    ended = tenants("list")
    assert ended.code == 1
    assert "ZOOMING_ADMIN_KEY" in ended.err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["create", "shop", "arms"], "SETTING=VALUE"),
        (["create", "shop", "arm=3"], "'arm' is no setting"),
        (["create", "shop", "tenant=3"], "'tenant' is no setting"),
        (["create", "shop", "arms=3", "noise=NaN"], "noise"),
        (["create", "shop", "arms=3", "noise=1e400"], "noise"),
        (["create", "shop", "arms=red"], "arms"),
        (["create", "Shop", "arms=3"], "tenant"),
        (["create", "shop", "--config", "/nowhere"], "/nowhere"),
        (["show", "nobody"], "nobody"),
        (["import", "shop", "/nowhere"], "/nowhere"),
        (["keys"], "ACTION"),
        ([], "ACTION"),
    ],
)
def test_what_cannot_be_done_is_told_by_name(
    tenants: Command, arguments: list[str], said: str
) -> None:
    ended = tenants(*arguments)
    assert ended.code in (1, 2)
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_a_service_that_is_not_there_is_told_soon(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tenants", "list", "--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "was not answered" in capsys.readouterr().err
