"""Load tests against a real service: they pass when all is well, and find what is not."""

import os
import signal
import threading

import pytest

from service.__main__ import main
from tests.loadtest.conftest import ADMIN_KEY, Start
from tests.support.engine import new_name
from tests.support.servers import Service, children_of, free_port, is_running, kill, wait_for


def trials_of(service: Service, tenant: str) -> int:
    """How many trials a tenant has, 0 while it does not exist."""
    answer = service.client.get(f"/tenants/{tenant}")
    if answer.status_code == 404:
        return 0
    counters = answer.raise_for_status().json()["counters"]
    return int(counters["trials_active"]) + int(counters["trials_flagged"])


def tenants_of(service: Service) -> list[str]:
    """The tenants that exist."""
    found: list[str] = service.client.get("/tenants").json()["tenants"]
    return found


def create(service: Service, tenant: str) -> None:
    """Creates a tenant that is none of the load test's."""
    body = {"arms": 2, "horizon": 10, "noise": 0.1}
    assert service.client.put(f"/tenants/{tenant}", json=body).status_code == 201


def test_open_loop_with_everything_at_once(service: Service, start: Start) -> None:
    """Two processes, three tenants, rewards late, lost and sent twice: every count is equal."""
    code, said = (
        run := start(
            service.url,
            "--rate 120 --seconds 2.5 --processes 2 --tenants 3 --arms 5 --delay exponential:0.3 "
            "--lost 0.1 --duplicates 0.2 --max-error-share 0 --min-rate 60",
        )
    ).end()
    assert code == 0, said
    numbers = run.numbers()
    counts = {
        (row["what"], row["tenant"]): (row["least"], row["server"]) for row in numbers["counts"]
    }
    assert all(row["equal"] and row["least"] == row["most"] for row in numbers["counts"])
    trials = [seen for (what, _), (seen, _) in counts.items() if what == "trials"]
    assert len(trials) == 3
    assert min(trials) > 60
    assert sum(trials) == numbers["traffic"]["selects_answered"]
    applied = sum(seen for (what, _), (seen, _) in counts.items() if what == "rewards applied")
    assert applied == sum(trials) - numbers["traffic"]["rewards_lost_on_purpose"] < sum(trials)
    assert sum(seen for (what, _), (seen, _) in counts.items() if what == "rewards duplicate") > 20
    assert counts["/select answered 200", ""] == (sum(trials), sum(trials))
    assert numbers["proxies"]["regret_upper"][-1] > 0
    assert "What the client saw is what the service counted" in said
    assert tenants_of(service) == []


def test_closed_loop_learns(service: Service, start: Start) -> None:
    """One client, in step with the algorithm, comes most of the way within 500 trials."""
    run = start(
        service.url,
        "--clients 1 --trials 500 --arms 4 --environment types --seed 3 --min-reward-share 0.8",
    )
    code, said = run.end()
    assert code == 0, said
    numbers = run.numbers()
    assert numbers["traffic"]["selects_answered"] == 500
    assert numbers["learning"]["average_reward"] > numbers["learning"]["random_arm"]


def test_a_trial_of_someone_else_is_found(service: Service, start: Start) -> None:
    """The service counts one more than the client saw."""
    name = new_name()
    run = start(service.url, f"--clients 2 --seconds 1 --name {name} --arms 5")
    wait_for(lambda: trials_of(service, f"{name}-1"), what="the first trial")
    body = {"tenant": f"{name}-1", "context": 0.5}
    service.client.post("/select", json=body).raise_for_status()
    code, said = run.end()
    assert code == 1
    assert "DIFFERENT" in said
    wrong = [row for row in run.numbers()["counts"] if not row["equal"] and row["tenant"]]
    assert [(row["what"], row["server"] - row["most"]) for row in wrong] == [("trials", 1)]


def test_others_may_use_a_shared_service(service: Service, start: Start) -> None:
    """Their requests show in the HTTP counts, which are then not judged."""
    name, other = new_name(), new_name()
    create(service, other)
    run = start(service.url, f"--clients 2 --seconds 1 --name {name} --arms 5 --shared")
    wait_for(lambda: trials_of(service, f"{name}-1"), what="the first trial")
    body = {"tenant": other, "context": 0.5}
    service.client.post("/select", json=body).raise_for_status()
    code, said = run.end()
    assert code == 0, said
    wrong = [row["what"] for row in run.numbers()["counts"] if not row["equal"]]
    assert wrong == ["/select answered 200"]
    assert "different, not judged" in said
    service.client.delete(f"/tenants/{other}").raise_for_status()


def test_a_missed_threshold_is_the_exit_code(service: Service, start: Start) -> None:
    """Though all counts are equal."""
    run = start(service.url, "--trials 20 --max-p99-ms 0.001 --keep")
    code, said = run.end()
    assert code == 1
    assert "MISSED" in said
    assert run.numbers()["counts_equal"]
    (kept,) = tenants_of(service)
    assert trials_of(service, kept) == 20
    service.client.delete(f"/tenants/{kept}").raise_for_status()


def test_a_stall_shows_in_full(service: Service, start: Start) -> None:
    """All requests that were due while the service stood still have waited, not one a client.

    It stands still for a third of the test, so a quarter of the requests at least must be slow.
    """
    name = new_name()
    run = start(service.url, f"--rate 60 --seconds 3 --name {name} --arms 5")
    wait_for(lambda: trials_of(service, f"{name}-1") > 10, what="some trials")
    workers = service.workers()
    try:
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        threading.Event().wait(1.0)  # the length of the stall is what is measured
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    code, said = run.end()
    assert code == 0, said
    numbers = run.numbers()
    distribution = numbers["distribution_ms"]
    due = dict(zip(distribution["percentile"], distribution["due"], strict=True))
    assert numbers["latency_ms"]["select"]["due"]["p99"] > 850
    assert min(ms for percentile, ms in due.items() if percentile > 75) > 100
    assert max(numbers["course"]["in_flight"]) > 30


def test_killed_workers_leave_doubt_but_no_difference(service: Service, start: Start) -> None:
    """Requests that broke off may have been counted or not; all others were."""
    name = new_name()
    run = start(service.url, f"--clients 8 --seconds 2 --name {name} --arms 5")
    wait_for(lambda: trials_of(service, f"{name}-1") > 10, what="some trials")
    kill(service.workers())
    code, said = run.end()
    assert code == 0, said
    kinds = {kind for kinds in run.numbers()["errors"].values() for kind in kinds}
    assert kinds <= {"reset", "connect"}
    assert any(row["least"] < row["most"] for row in run.numbers()["counts"])
    service.wait_for_workers(2)


def test_ctrl_c_ends_with_a_report(service: Service, start: Start) -> None:
    """Of what was done until then; rewards still to come are counted as unsent."""
    name = new_name()
    run = start(service.url, f"--rate 80 --seconds 300 --delay 100 --name {name} --processes 2")
    wait_for(lambda: trials_of(service, f"{name}-1") > 20, what="some trials")
    run.process.send_signal(signal.SIGINT)
    code, said = run.end()
    assert code == 0, said
    numbers = run.numbers()
    assert numbers["interrupted"]
    assert numbers["traffic"]["rewards_unsent"] == numbers["traffic"]["selects_answered"] > 20
    assert tenants_of(service) == []


def test_a_signal_to_the_whole_group_ends_in_order_and_misses_the_thresholds(
    service: Service, start: Start
) -> None:
    """As CI systems and `timeout` send it; a gate that was not tried in full has not passed."""
    name = new_name()
    run = start(
        service.url,
        f"--rate 80 --seconds 300 --name {name} --processes 2 --max-error-share 1",
    )
    wait_for(lambda: trials_of(service, f"{name}-1") > 20, what="some trials")
    os.killpg(run.process.pid, signal.SIGTERM)
    code, said = run.end()
    assert code == 1, said
    assert run.numbers()["interrupted"]
    assert run.numbers()["counts_equal"]
    assert tenants_of(service) == []


def test_a_killed_load_test_leaves_no_process(service: Service, start: Start) -> None:
    """Those that send end with the one that leads; its tenants are left."""
    name = new_name()
    run = start(service.url, f"--rate 20 --seconds 300 --name {name} --processes 2")
    wait_for(lambda: trials_of(service, f"{name}-1"), what="the first trial")
    family = children_of(run.process.pid)
    assert len(family) >= 2
    run.process.kill()
    wait_for(lambda: not any(map(is_running, family)), what="the end of its processes")
    service.client.delete(f"/tenants/{name}-1").raise_for_status()


def test_without_end_it_starts_over_and_stops_when_told(service: Service, start: Start) -> None:
    """As it runs in a container: what an earlier one left goes, SIGTERM ends it in order."""
    create(service, "loadtest-1")
    run = start(service.url, "--clients 2 --trials 20 --forever")
    assert run.process.stdout is not None
    rounds = 0
    while rounds < 2:
        line = run.process.stdout.readline()
        assert line, "it ended by itself"
        rounds += line.startswith("The report is in")
    run.process.send_signal(signal.SIGTERM)
    run.end()
    assert run.numbers()["setup"]["seed"] > 0
    wait_for(lambda: tenants_of(service) == [], what="the end of its tenants")


def test_a_service_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence says so, and what to do."""
    code = main(["loadtest", "--url", f"http://127.0.0.1:{free_port()}", "--trials", "5"])
    said = capsys.readouterr().err
    assert code == 1
    assert "does not answer" in said
    assert "zooming serve" in said


def test_a_configuration_that_the_service_refuses(
    service: Service,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Is a flag that cannot be used."""
    monkeypatch.setenv("ZOOMING_ADMIN_KEY", ADMIN_KEY)
    with pytest.raises(SystemExit) as ended:
        main(["loadtest", "--url", service.url, "--set", "buckets=many"])
    assert ended.value.code == 2
    assert "buckets: Input should be a valid integer" in capsys.readouterr().err


def test_a_service_that_wants_a_key(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that is missing is named."""
    monkeypatch.delenv("ZOOMING_ADMIN_KEY", raising=False)
    assert main(["loadtest", "--url", service.url]) == 1
    assert "wants its admin key: set ZOOMING_ADMIN_KEY" in capsys.readouterr().err
