"""The form of what is stored: a version that would misread another's tenants must know it."""

import hashlib
import re

from service.store import keys
from service.store.fields import FORM
from tests.lua.test_contracts import LIBRARIES, LUA

# By the form, a digest of all layouts that steps write, and of the kinds of keys.
LAYOUTS = {9: "c27544caf891ba254a42cab865e8815eb2e371f7"}


def layouts() -> set[str]:
    """What the Lua packs and unpacks by: all strings of which that may be said."""
    texts = [path.read_text() for path in (*LUA.glob("*.lua"), *LIBRARIES)]
    found = {text for whole in texts for text in re.findall(r'"([^"\n]*)"', whole)}
    return {text for text in found if re.fullmatch(r"[<>]?(?:[Bdf]|I\d)+", text)}


def test_another_layout_is_another_form() -> None:
    """Else a store or a file of the version before would be read as what it is not."""
    assert {"<dI4dI4", "<I4ddddd", "dddddddddI4BI4"} <= layouts()
    parts = sorted(layouts()) + [f"{kind} {about}" for kind, about in sorted(keys.DERIVED.items())]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    assert LAYOUTS.get(FORM) == digest, (
        f"The layouts are not those of form {FORM}: raise FORM in service/store/fields.py, say so "
        f"in the changelog, and put the new form's digest here: {digest}"
    )
