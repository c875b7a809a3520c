"""The short way of the calls that are made all the time answers as FastAPI's own does."""

import json
from typing import Any

import httpx
import pytest

from tests.api.calls import create
from tests.support.servers import Service

# Each of them is JSON; only what is spelled as the first two takes the short way.
SPELLINGS = ("application/json", "application/json; charset=utf-8", "Application/JSON")
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "select": ("/select", {"context": 0.25, "decision_id": "one"}),
    "ranking": ("/select", {"context": 0.5, "decision_id": "three", "n": 3}),
    "selects": ("/select/batch", {"items": [{"context": 0.25, "decision_id": "one"}]}),
    "reward": ("/reward", {"decision_id": "rewarded", "reward": 1}),
    "rewards": ("/reward/batch", {"items": [{"decision_id": "rewarded", "reward": 1.0}]}),
    "unknown decision": ("/reward", {"decision_id": "never", "reward": 1.0}),
    "another reward": ("/reward", {"decision_id": "rewarded", "reward": 0.5}),
    "another context": ("/select", {"context": 0.75, "decision_id": "one"}),
    "wrong type": ("/select", {"context": "0.25"}),
    "not a number": ("/reward", {"decision_id": "one", "reward": float("nan")}),
    "outside": ("/select", {"context": 2}),
    "unknown field": ("/select", {"context": 0.25, "colour": "red"}),
}


def post(service: Service, path: str, body: dict[str, Any], spelling: str) -> httpx.Response:
    """The answer to a body that is said to be JSON in this way."""
    headers = {"Content-Type": spelling}
    return service.client.post(path, content=json.dumps(body), headers=headers)


@pytest.mark.parametrize("name", CALLS)
def test_both_ways_answer_alike(service: Service, name: str) -> None:
    """Status, headers and body; the decisions have been made, and rewarded, before."""
    tenant = create(service)
    for path, body in (
        ("/select", {"context": 0.25, "decision_id": "one"}),
        ("/select", {"context": 0.5, "decision_id": "three", "n": 3}),
        ("/select", {"context": 0.5, "decision_id": "rewarded"}),
        ("/reward", {"decision_id": "rewarded", "reward": 1.0}),
    ):
        assert post(service, path, body | {"tenant": tenant}, SPELLINGS[0]).status_code == 200
    path, body = CALLS[name]
    answers = [post(service, path, body | {"tenant": tenant}, spelling) for spelling in SPELLINGS]
    first, *others = [
        (answer.status_code, answer.text, answer.headers["content-type"]) for answer in answers
    ]
    assert others == [first, first]
