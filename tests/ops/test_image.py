"""The image without Docker: its build stage run step by step in a folder, its command from there.

The steps are read from the Dockerfile and see only what .dockerignore lets through.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.support.servers import Service, free_port, wait_until_ready

ROOT = Path(__file__).parents[2]
VENV = "/opt/zooming"
ADMIN = {"Authorization": "Bearer an-admin-key"}
OFFLINE = re.compile(r"Failed to establish a new connection|Temporary failure in name resolution")


@dataclass
class Stage:
    """The instructions that follow one FROM."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        """The arguments of every instruction of this kind."""
        return [rest for step, rest in self.steps if step == word]

    def environment(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = (pair.partition("=") for rest in self.all("ENV") for pair in shlex.split(rest))
        return {name: value for name, _, value in pairs}


def stages() -> list[Stage]:
    """The Dockerfile, comments dropped and continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line[:1] != "#"]
    found: list[Stage] = []
    for instruction in filter(str.strip, "\n".join(lines).replace("\\\n", "").splitlines()):
        word, _, rest = instruction.strip().partition(" ")
        if word == "FROM":
            found.append(Stage(rest.split()[0]))
        else:
            found[-1].steps.append((word, rest))
    return found


BUILD, FINAL = stages()


def context() -> list[Path]:
    """The files that Docker is sent: the last pattern that matches a file or a parent decides."""
    patterns = [
        (line[0] == "!", _as_regex(line.lstrip("!")))
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and line[0] != "#"
    ]
    tops = [top for top in ROOT.iterdir() if _is_sent(Path(top.name), patterns)]
    found = [file for top in tops for file in (top, *top.rglob("*")) if file.is_file()]
    relative = (file.relative_to(ROOT) for file in found)
    return [file for file in relative if _is_sent(file, patterns)]


def _as_regex(pattern: str) -> "re.Pattern[str]":
    escaped = re.escape(pattern).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
    return re.compile(escaped.replace(r"\[", "[").replace(r"\]", "]") + "(/.*)?")


def _is_sent(file: Path, patterns: "list[tuple[bool, re.Pattern[str]]]") -> bool:
    matching = [let_in for let_in, pattern in patterns if pattern.fullmatch(file.as_posix())]
    return matching[-1] if matching else True


def copy(rest: str, *, to: Path) -> None:
    """COPY of files into the working folder, or of one folder."""
    *sources, target = shlex.split(rest)
    for source in map(Path, sources):
        files = [file for file in context() if source in (file, *file.parents)]
        assert files, f"{source} is not in the build context"
        for file in files:
            place = to / target / file.relative_to(source if file != source else source.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, place)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage leaves in /opt/zooming, elsewhere."""
    folder = tmp_path_factory.mktemp("image")
    made = folder / "zooming"
    work = folder / "build"
    work.mkdir()
    # pip's cache changes nothing but the time.
    environment = os.environ | BUILD.environment() | {"PIP_NO_CACHE_DIR": "0"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for word, rest in BUILD.steps:
        if word == "COPY":
            copy(rest, to=work)
        elif word == "RUN":
            command = rest.replace(VENV, str(made))
            outcome = subprocess.run(
                ["sh", "-ec", command],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if OFFLINE.search(outcome.stderr) and not os.environ.get("CI"):
                pytest.skip("pip cannot reach its package index")
            assert outcome.returncode == 0, f"{command}\n{outcome.stdout}{outcome.stderr}"
        else:
            assert word in ("ENV", "WORKDIR")
    return made


def image_environment(venv: Path, *, data: Path, port: int = 0) -> dict[str, str]:
    """The final stage's variables, with its folders where they are here, and no others."""
    variables = FINAL.environment()
    assert variables["PATH"] == f"{VENV}/bin:$PATH"
    assert variables["ZOOMING_DATA"] == "/data"
    here = {"PATH": f"{venv}/bin", "ZOOMING_DATA": str(data), "ZOOMING_PORT": str(port)}
    return variables | here | {"HOME": "/nonexistent"}


@contextmanager
def container(venv: Path, folder: Path) -> Iterator[Service]:
    """The image's command, on loopback and with a private store, as by `docker run`."""
    port = free_port()
    own = {"ZOOMING_ADMIN_KEY": "an-admin-key", "ZOOMING_HOST": "127.0.0.1"}
    data, log = folder / "data", folder / "log"
    data.mkdir()
    program, *words = json.loads(FINAL.all("CMD")[0])
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [venv / "bin" / program, *words],
            cwd=data,
            env=image_environment(venv, data=data, port=port) | own,
            stderr=stderr,
        )
    service = Service(process, f"http://127.0.0.1:{port}", log)
    try:
        wait_until_ready(service)
        yield service
    finally:
        process.send_signal(signal.Signals[FINAL.all("STOPSIGNAL")[0]])
        assert process.wait(30) == 0
        service.client.close()


def health_check(venv: Path, folder: Path, *, port: int) -> int:
    """The exit code of the image's own check."""
    words = json.loads(FINAL.all("HEALTHCHECK")[0].partition("CMD ")[2])
    environment = image_environment(venv, data=folder / "data", port=port)
    return subprocess.run(
        [venv / "bin" / words[0], *words[1:]],
        env=environment,
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode


def files_in(folder: Path) -> set[Path]:
    return {file for file in folder.rglob("*") if file.is_file()}


def test_serves_and_learns_on_its_private_store(venv: Path, tmp_path: Path) -> None:
    installed = files_in(venv)
    with container(venv, tmp_path) as service:
        port = int(service.url.rpartition(":")[2])
        assert health_check(venv, tmp_path, port=port) == 0
        created = service.client.put(
            "/tenants/shop",
            json={"arms": 3, "horizon": 1000, "noise": 0.1},
            headers=ADMIN,
        )
        assert created.status_code == 201
        key = {"Authorization": f"Bearer {created.json()['api_key']}"}
        body = {"tenant": "shop", "context": 0.4}
        selected = service.client.post("/select", json=body, headers=key).raise_for_status().json()
        reward = {"tenant": "shop", "decision_id": selected["decision_id"], "reward": 1.0}
        assert service.client.post("/reward", json=reward, headers=key).json()["status"] == (
            "applied"
        )
        assert service.client.get("/docs").status_code == 200
        assert "zooming_store_up 1.0" in service.client.get("/metrics").text
        assert (tmp_path / "data" / "appendonlydir").is_dir()
    assert health_check(venv, tmp_path, port=port) != 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url)
    assert files_in(venv) == installed, "the image must not need to write to itself"


def test_refuses_to_be_open_to_everyone(venv: Path, tmp_path: Path) -> None:
    outcome = subprocess.run(
        [venv / "bin" / "zooming", "serve"],
        env=image_environment(venv, data=tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert "Set ZOOMING_ADMIN_KEY" in outcome.stderr


def test_every_file_of_the_packages_is_in(venv: Path) -> None:
    """Lua and pages too, as they are here."""
    [site] = venv.glob("lib/python3*/site-packages")
    packages = [file for file in context() if file.parts[0] in ("service", "loadtest")]
    assert any(file.suffix == ".lua" for file in packages)
    for file in packages:
        assert (site / file).read_bytes() == (ROOT / file).read_bytes(), file


def test_installed_set_is_the_pinned_one(venv: Path) -> None:
    """Nothing unpinned, and nothing that only developers need."""
    told = subprocess.check_output(
        [
            venv / "bin" / "python",
            "-c",
            "import importlib.metadata as m, json; "
            "print(json.dumps({d.name: d.version for d in m.distributions()}))",
        ]
    )
    installed = {canonical(name): version for name, version in json.loads(told).items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert installed.pop("approx-zooming") == project["version"]
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert installed.items() <= {canonical(name): pin for name, pin in pins.items()}.items()
    developers = {
        canonical(re.split(r"[>=<\[ ]", requirement)[0])
        for requirement in project["optional-dependencies"]["dev"]
    }
    assert not installed.keys() & (developers | {"pip"})


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_context_holds_only_what_is_copied() -> None:
    sources = {word for rest in BUILD.all("COPY") for word in shlex.split(rest)[:-1]}
    assert {file.parts[0] for file in context()} == sources
    assert not [file for file in context() if "__pycache__" in file.parts]


def test_final_stage_runs_as_nobody_in_particular() -> None:
    assert [stage.base for stage in (BUILD, FINAL)] == [BUILD.base] * 2
    assert FINAL.all("COPY") == [f"--from=build {VENV} {VENV}"]
    [user] = FINAL.all("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert f"-o {user.partition(':')[0]} " in FINAL.all("RUN")[0], "/data must be the user's"
    assert FINAL.environment()["ZOOMING_PORT"] in FINAL.all("EXPOSE")
