"""One JSON line for each split and each error, with tenant and decision id; quiet otherwise."""

import json
import socket
from pathlib import Path
from typing import Any

from tests.support.servers import Service, running_service, wait_for


def lines(service: Service) -> list[dict[str, Any]]:
    """What the service logged, after the one line for people that it starts with."""
    first, *rest = service.log_text().splitlines()
    assert first.startswith("zooming: serving http://")
    return [json.loads(line) for line in rest]


def test_splits_and_errors_are_logged_and_nothing_else(tmp_path: Path) -> None:
    """A split, a lost store, a client that does not speak HTTP; not the requests in between."""
    with running_service(tmp_path) as service:
        config = {"arms": 2, "preset": "simulation", "horizon": 100, "noise": 0.1, "neighbours": 1}
        service.client.put("/tenants/shop", json=config).raise_for_status()
        assert lines(service) == []
        chosen = {}
        for _ in range(2):
            body = {"tenant": "shop", "context": 0.5}
            chosen = service.client.post("/select", json=body).json()
            rewarded = {"tenant": "shop", "decision_id": chosen["decision_id"], "reward": 1.0}
            service.client.post("/reward", json=rewarded).raise_for_status()
        (split,) = lines(service)
        assert (split["level"], split["message"], split["tenant"]) == ("info", "split", "shop")
        assert (split["ball"], split["decision_id"]) == (0, chosen["decision_id"])
        assert (split["arms"], split["samples"]) == (2, 2)
        assert split["ms"] > 0

        service.client.post("/select", json={"tenant": "nobody", "context": 0.5})
        service.client.post("/select", json={"tenant": "shop", "context": 2})
        assert lines(service) == [split], "a refusal is the caller's affair"

        with socket.create_connection(("127.0.0.1", service.client.base_url.port or 0)) as client:
            client.sendall(b"what is this?\r\n\r\n")
            client.recv(100)
        garbage = wait_for(lambda: lines(service)[1:])[0]
        assert (garbage["level"], garbage["message"]) == (
            "warning",
            "Invalid HTTP request received.",
        )


def test_an_error_names_tenant_and_decision(tmp_path: Path) -> None:
    """A select that the store cannot answer, with an id of the service's making."""
    with running_service(tmp_path) as service:
        config = {"arms": 2, "horizon": 100, "noise": 0.1}
        service.client.put("/tenants/shop", json=config).raise_for_status()
        with service.store_client() as store:
            store.config_set("maxmemory", 1)
            body = {"tenant": "shop", "context": 0.5}
            answer = service.client.post("/select", json=body)
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            store.config_set("maxmemory", 0)
        (error,) = lines(service)
        assert (error["level"], error["message"]) == ("error", "store unavailable")
        assert (error["tenant"], error["path"]) == ("shop", "/select")
        assert len(error["decision_id"]) == 20
        assert "maxmemory" in error["error"]
        assert service.client.post("/select", json=body).status_code == 200
