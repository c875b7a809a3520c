"""The flags of `zooming tenants`; what each action does is in `tenants_actions.py`."""

import argparse
import json
from pathlib import Path
from typing import Any

DESCRIPTION = (
    "Lists, shows, creates, changes, deletes, exports and imports the tenants of a running "
    "service, and changes their keys and arms. The admin key is taken from the variable "
    "ZOOMING_ADMIN_KEY."
)
STDIO = Path("-")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its flags."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add(actions, "list", "list_tenants", "the names of all tenants")
    show = _add(actions, "show", "show", "settings, keys and counters of a tenant", "tenant")
    show.add_argument("--json", action="store_true", dest="as_json", help="as the API says it")
    create = _add(actions, "create", "create", "a new tenant, its key shown this once", "tenant")
    _add_settings(create, 'such as arms=3, \'arms=["red", "blue"]\' or preset=simulation')
    create.add_argument("--config", type=Path, metavar="FILE", help="settings as a JSON object")
    update = _add(actions, "update", "update", "change what is not structural", "tenant")
    _add_settings(update, "such as split_wait_ms=50")
    delete = _add(actions, "delete", "delete", "delete a tenant with all it learned", "tenant")
    delete.add_argument("--yes", action="store_true", help="do not ask first")
    export = _add(actions, "export", "export", "write a whole tenant to a file", "tenant")
    _add_file(export, "a new file (standard output)")
    import_ = _add(actions, "import", "import_", "a tenant from the file of an export", "tenant")
    _add_file(import_, "the file (standard input)")
    keys = _group(actions, "keys", "the keys that open a tenant")
    _add(keys, "list", "list_keys", "the keys there are, and until when", "tenant")
    new = _add(keys, "new", "new_key", "another key, shown this once; two at most", "tenant")
    new.add_argument(
        "--expires-in-seconds", type=float, metavar="S", help="left out: until it is revoked"
    )
    _add(keys, "revoke", "revoke_key", "have a key open nothing any more", "tenant", "key_id")
    arms = _group(actions, "arms", "the arms of a tenant")
    _add(arms, "list", "list_arms", "the arms there are, and which are paused", "tenant")
    _add(arms, "add", "add_arm", "add an arm", "tenant", "arm")
    _add(arms, "pause", "pause_arm", "have an arm not played for a while", "tenant", "arm")
    _add(arms, "resume", "resume_arm", "have a paused arm played again", "tenant", "arm")
    _add(arms, "retire", "retire_arm", "take an arm out for good", "tenant", "arm")


def _add(
    actions: Any, name: str, action: str, about: str, *arguments: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=about, description=_sentence(about)
    )
    for argument in arguments:
        parser.add_argument(argument, type=_name, metavar=argument.upper())
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the service (%(default)s)")
    parser.set_defaults(action=action)
    return parser


def _group(actions: Any, name: str, about: str) -> Any:
    parser = actions.add_parser(name, help=about, description=_sentence(about))
    return parser.add_subparsers(required=True, metavar="ACTION")


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."


def _add_settings(parser: argparse.ArgumentParser, examples: str) -> None:
    settings = parser.add_argument(
        "settings", nargs="+", type=_setting, default=(), metavar="SETTING=VALUE", help=examples
    )
    # Not "*", which would take none of those that follow a flag.
    settings.required = False


def _add_file(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("file", nargs="?", type=Path, default=STDIO, metavar="FILE", help=about)


def _name(text: str) -> str:
    if text in ("", ".", ".."):
        raise argparse.ArgumentTypeError(f"'{text}' names nothing")
    return text


def _setting(text: str) -> tuple[str, Any]:
    """A value is JSON, or else the text itself."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not SETTING=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
