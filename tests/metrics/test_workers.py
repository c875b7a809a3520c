"""What several workers count is one sum, and stays so when workers die."""

import os
import shutil
import signal
from pathlib import Path

import httpx

from tests.api.calls import create
from tests.support.metrics import scrape
from tests.support.servers import is_running, running_service, wait_for

WORKERS = 3
DEATHS = 3


def folders(place: Path) -> set[Path]:
    """The folders of the metrics of all services that keep them here."""
    return set(place.glob("zooming-metrics-*"))


def test_the_workers_counts_are_summed_and_outlive_them(store_url: str, tmp_path: Path) -> None:
    """Each worker that dies is replaced by one that goes on with its files."""
    with running_service(
        tmp_path, redis_url=store_url, workers=WORKERS, TMPDIR=str(tmp_path)
    ) as service:
        create(service, "shop")
        body = {"tenant": "shop", "context": 0.5}
        answered, killed = 0, set()
        for _ in range(DEATHS):
            for _ in range(10):  # each on a connection of its own, so that any worker has it
                httpx.post(f"{service.url}/select", json=body, timeout=30).raise_for_status()
                answered += 1
            page = scrape(service)
            counted = page(
                "zooming_http_requests_total", route="/select", method="POST", status="200"
            )
            assert counted == answered == page.sum("zooming_trials_total")
            victim = service.workers()[0]
            killed.add(victim)
            os.kill(victim, signal.SIGKILL)
            wait_for(
                lambda: (
                    len(set(service.workers()) - killed) == WORKERS
                    and scrape(service)("zooming_workers") == WORKERS
                ),
                what="the dead worker's successor",
            )
        (folder,) = folders(tmp_path)
        files = sorted(path.name for path in folder.glob("*.db"))
        assert len(files) == 2 * WORKERS, files
        assert not any(is_running(pid) for pid in killed)
        page = scrape(service)
        assert page.sum("zooming_http_request_seconds_count", route="/select") == answered
        assert page.labels("zooming_worker_memory_bytes", "worker") == {"0", "1", "2"}
    assert folder not in folders(tmp_path)


def test_what_a_killed_service_leaves_is_removed_by_the_next(
    store_url: str, tmp_path: Path
) -> None:
    """While the folders of living services stay."""
    with running_service(tmp_path, redis_url=store_url, TMPDIR=str(tmp_path)) as living:
        others = folders(tmp_path)
        with running_service(tmp_path, redis_url=store_url, TMPDIR=str(tmp_path)) as dying:
            (left,) = folders(tmp_path) - others
            dying.process.kill()
            dying.process.wait()
        assert left in folders(tmp_path)
        with running_service(tmp_path, redis_url=store_url, TMPDIR=str(tmp_path)):
            assert left not in folders(tmp_path)
            assert others <= folders(tmp_path)
        assert scrape(living)("zooming_workers") == 1


def test_a_service_whose_folder_is_removed_goes_on(store_url: str, tmp_path: Path) -> None:
    """It has lost counts, and nothing else: the page is there, and workers start."""
    with running_service(tmp_path, redis_url=store_url, workers=2, TMPDIR=str(tmp_path)) as service:
        wait_for(lambda: scrape(service)("zooming_workers") == 2, what="both workers")
        (folder,) = folders(tmp_path)
        shutil.rmtree(folder)
        assert scrape(service)("zooming_store_up") == 1
        first = set(service.workers())
        os.kill(min(first), signal.SIGKILL)
        wait_for(lambda: len(set(service.workers()) - {min(first)}) == 2, what="a successor")
        wait_for(lambda: scrape(service)("zooming_workers") == 1, what="its slot")


def test_folders_of_others_are_left_alone(store_url: str, tmp_path: Path) -> None:
    """A pipe where a folder was expected must not hold up the start."""
    os.mkfifo(tmp_path / "zooming-metrics-pipe")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "zooming-metrics-link").symlink_to(tmp_path / "elsewhere")
    with running_service(tmp_path, redis_url=store_url, TMPDIR=str(tmp_path)) as service:
        assert scrape(service)("zooming_workers") == 1
    assert (tmp_path / "elsewhere").is_dir()
    assert {path.name for path in folders(tmp_path)} == {
        "zooming-metrics-link",
        "zooming-metrics-pipe",
    }
