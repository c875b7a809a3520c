"""For every field of every call: values that must be refused, and values that must be taken.

All as JSON text, since much of it no JSON library would write.
"""

import json
from typing import Any

HUGE = str(10**400)
YEAR_AND_A_DAY = 366 * 86_400

# Bad wherever a number is wanted.
NO_NUMBER = [
    *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", HUGE, f"-{HUGE}", "1e308", "-1e308"),
    *('"1"', '""', '"NaN"', "true", "false", "[]", "[1]", "{}", '{"value": 1}'),
]
NO_INTEGER = [*NO_NUMBER, "1.5", "2.0", "1e2", "-0.0"]
NO_TEXT = ["NaN", "1e400", HUGE, "0", "true", "[]", '["shop"]', "{}", '"\\ud800"']
NO_TENANT = [
    *(*NO_TEXT, "null", '""', '"Shop"', '"a}"', '"{a"', '"a\\n"', '" a"', '"-a"', '"é"'),
    *('"a\\u0000"', '"a/b"', '"a:b"', json.dumps("a" * 64)),
]
NO_ARM = [".", "..", "\0", "a\nb", "a\n", "\x7f", "\x85"]
NO_COEFFICIENT = [*NO_NUMBER, "-0.1", "-5e-324", "1000.1"]
NO_SECONDS = [*NO_NUMBER, "null", "0", "-0.0", "-1", "-1e-9", f"{YEAR_AND_A_DAY}.1"]


def _count(most: int, least: int = 1) -> list[str]:
    return [*NO_INTEGER, str(least - 1), "-1", str(most + 1)]


def _rows(kind: str) -> list[str]:
    """What cannot be the rows of three arms."""
    wrong = [
        *("null", "1", '"rows"', "{}", "[]", "[[]]", "[1, 2, 3]", "[null, null, null]"),
        *("[[1], [2]]", "[[1], [2], [3], [4]]", "[[1], [2], []]", "[[], [], []]"),
        *("[[1, 2], [3, 4], [5]]", "[[1], [2], [NaN]]", "[[1], [2], [Infinity]]"),
        *("[[1], [2], [1e400]]", "[[1], [2], [-1.1e100]]", f"[[1], [2], [{HUGE}]]"),
        *('[[1], [2], ["3"]]', "[[1], [2], [true]]", "[[1], [2], [null]]", "[[1], [2], [[3]]]"),
    ]
    return [f'{{"kind": "{kind}", "{kind}": {rows}}}' for rows in wrong]


def _items(good: dict[str, Any]) -> list[str]:
    """What no batch may have for its items; one bad item after good ones spoils all."""
    wrong: list[Any] = [None, True, [], {}]
    odd = [{**good, name: value} for name in [*good, "more"] for value in wrong]
    lists = [[], [None], [1], [[]], [{}], [good] * 1001, *([good, good, item] for item in odd)]
    return [*NO_TEXT, "null", *map(json.dumps, lists)]


CHANGEABLE = {
    "default_reward": [*NO_NUMBER, "1000000.1", "-1000000.1"],
    "exploration_floor": [*NO_COEFFICIENT, "null", "1.0000000000000002"],
    "holdout": [*NO_COEFFICIENT, "null", "1.0000000000000002"],
    "log_entries": [*_count(10**8, least=0), "null"],
    "split_wait_ms": [*_count(60_000, least=0), "null"],
}

BAD: dict[str, dict[str, list[str]]] = {
    "PUT /tenants/new": {
        "arms": [
            *(*NO_INTEGER, "null", "0", "-1", "100001", '["a", "a"]', '[""]', "[null]", "[0]"),
            *('[["a"]]', '["\\ud800"]', '["a", {}]', json.dumps(["a" * 129])),
            *(json.dumps(["a", name]) for name in NO_ARM),
            *(json.dumps(["a", "b", "a"]), json.dumps(["x"] * 100_001)),
        ],
        "horizon": [*_count(10**12, least=2), "null", "1"],
        "noise": [*NO_COEFFICIENT, "null"],
        "preset": [*NO_TEXT, "null", '""', '"Paper"', '"paper\\n"'],
        "lipschitz": [*NO_COEFFICIENT, "0", "-0.0", "0.00099"],
        "buckets": _count(1024),
        "neighbours": _count(10**6),
        "grid": _count(10_000),
        "flag_coefficient": NO_COEFFICIENT,
        "confidence_coefficient": NO_COEFFICIENT,
        "diameter_coefficient": NO_COEFFICIENT,
        "cluster_ratio": NO_COEFFICIENT,
        "max_depth": _count(30),
        "patience": _count(1000),
        "sampling": [*NO_TEXT, '""', '"random"', '"Sequential"'],
        "similarity": [
            *(*NO_TEXT, '"none"', '{"kind": null}', '{"kind": 1}', '{"kind": "None"}'),
            *('{"kind": "\\ud800"}', '{"kind": "none", "more": 1}', '{"kind": ["none"]}'),
            *('{"kind": "features"}', '{"kind": "curves", "features": [[1], [2], [3]]}'),
            *(*_rows("features"), *_rows("curves")),
        ],
        "reward_range": [
            *(*NO_TEXT, "null", "1", "[]", "[0]", "[0, 1, 2]", '["0", "1"]', "[0, null]"),
            *("[0, 0]", "[1, 0]", "[0, 1e-7]", "[0, 1000001]", "[-1000001, 0]", "[0, true]"),
        ],
        "context_scale": [
            *(*NO_TEXT, "null", '"unit"', '{"kind": null}', '{"kind": "Unit"}'),
            *('{"kind": "linear"}', '{"kind": "linear", "low": 1, "high": 1}'),
            *('{"kind": "linear", "low": 0, "high": NaN}', '{"kind": "unit", "more": 1}'),
            *('{"kind": "linear", "low": 0, "high": 1, "outside": "drop"}',),
            *('{"kind": "quantiles", "values": [1, 1]}', '{"kind": "quantiles", "values": []}'),
            *('{"kind": "quantiles", "values": [1, "2"]}', '{"kind": "auto", "contexts": 9}'),
            *('{"kind": "auto", "contexts": 10001}', '{"kind": "auto", "contexts": null}'),
        ],
        "reward_window_seconds": NO_SECONDS,
        "retention_seconds": NO_SECONDS,
        **CHANGEABLE,
    },
    "PATCH /tenants/known": CHANGEABLE,
    "PATCH /tenants/known/arms/1": {"paused": [*NO_TEXT[:4], '"true"', "1", "null", "[]", "{}"]},
    "POST /tenants/known/keys": {
        "expires_in_seconds": [text for text in NO_SECONDS if text != "null"]
    },
    "POST /select": {
        "tenant": NO_TENANT,
        "context": [*NO_NUMBER, "null", "-5e-324", "1.0000000000000002", "-1", "2"],
        "decision_id": [
            *(*NO_TEXT, '""', '"a b"', '"a\\n"', '"a:b"', '"a}"', '"é"', '"\\u0000"'),
            json.dumps("a" * 65),
        ],
        "eligible": [
            *(*NO_TEXT, "1", "[]", '["nobody"]', '["0", "nobody"]', '["0", 1]', '["0", null]'),
            *('[["0"]]', '[""]', json.dumps(["a" * 129])),
            *(json.dumps(["0", name]) for name in NO_ARM),
        ],
        "n": [*_count(50), "null"],
    },
    "POST /reward": {
        "tenant": NO_TENANT,
        "decision_id": [*NO_TEXT, "null", json.dumps("a" * 1025)],
        "reward": [*NO_NUMBER, "null", "1000000.1", "-1000000.1"],
    },
    "POST /select/batch": {"tenant": NO_TENANT, "items": _items({"context": 0.5})},
    "POST /reward/batch": {
        "tenant": NO_TENANT,
        "items": _items({"decision_id": "a", "reward": 1.0}),
    },
}

# The values at each bound, and those that only look odd.
GOOD: dict[str, list[str]] = {
    "arms": ["1", "100000", '["a"]', json.dumps(["a" * 128, "é", " ", "...", ".a", "}", "😀"])],
    "horizon": ["2", str(10**12)],
    "noise": ["0", "0.0", "-0.0", "-0", "1000", "5e-324", "1e-400"],
    "preset": ['"adaptive"', '"paper"', '"simulation"'],
    "lipschitz": ["0.001", "1000", "null"],
    "buckets": ["1", "1024", "null"],
    "neighbours": ["1", str(10**6), "null"],
    "grid": ["1", "10000", "null"],
    "flag_coefficient": ["0", "-0.0", "1000", "null"],
    "confidence_coefficient": ["0", "-0.0", "1000", "null"],
    "diameter_coefficient": ["0", "-0.0", "1000", "null"],
    "cluster_ratio": ["0", "-0.0", "1000", "null"],
    "max_depth": ["1", "30", "null"],
    "patience": ["1", "1000", "null"],
    "sampling": ['"round_robin"', '"sequential"', "null"],
    "similarity": [
        *("null", '{"kind": "learned"}', '{"kind": "none"}'),
        *('{"kind": "features", "features": [[-1e100], [1e100], [-0.0]]}',),
        *('{"kind": "curves", "curves": [[-1e100, 1e100], [1e100, -1e100], [0, 0]]}',),
    ],
    "reward_range": ["[0, 1]", "[-1e6, 1e6]", "[0, 0.000001]", "[-0.0, 5]"],
    "reward_window_seconds": ["1e-9", str(YEAR_AND_A_DAY)],
    "retention_seconds": ["1e-9", str(YEAR_AND_A_DAY)],
    "context_scale": [
        *('{"kind": "unit"}', '{"kind": "auto"}', '{"kind": "auto", "contexts": 10000}'),
        *('{"kind": "linear", "low": -1e100, "high": 1e100}', '{"kind": "auto", "contexts": 10}'),
        *('{"kind": "quantiles", "values": [-1e100, 1e100]}',),
    ],
    "default_reward": ["null", "-1000000", "1000000", "-0.0"],
    "exploration_floor": ["0", "-0.0", "1", "5e-324"],
    "holdout": ["0", "-0.0", "1", "5e-324"],
    "log_entries": ["0", "100000000"],
    "split_wait_ms": ["0", "-0", "60000"],
}
