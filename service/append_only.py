"""The private store's append-only file: what a kill may leave in it, and what is damage.

A kill or a power cut can leave one unfinished record at the end. It was never acknowledged, since
that comes after the whole of it is synced, so it may be cut off. Anything else that a server
refuses to load is damage, and is left as it is for a person to decide.
"""

import logging
import mmap
import os
import re
from pathlib import Path

from service.errors import StoreStartError

logger = logging.getLogger("zooming")

MANIFEST = "appendonly.aof.manifest"
RECORD = re.compile(rb"\*([1-9]\d{0,9})\r\n")
WORD = re.compile(rb"\$(\d{1,10})\r\n")
RECORD_START = re.compile(RECORD.pattern + WORD.pattern)


def refuse_lost_manifest(folder: Path) -> None:
    """Without its manifest a server takes the folder for new and overwrites what is there.

    (A server killed during its very first start leaves an empty base and no manifest.)
    """
    if (folder / MANIFEST).exists():
        return
    for file in folder.glob("appendonly.aof.*"):
        if file.stat().st_size and file.name != "appendonly.aof.1.base.rdb":
            raise StoreStartError(
                f"{file} holds data, but {MANIFEST} beside it is missing. "
                f"Restore it from a backup, or move {folder} away to start empty."
            )


def cut_torn_record(folder: Path, *, log: str) -> bool:
    """Drops an unfinished last record, if the server's log says that it refused because of it."""
    refusal = re.search(r"Unexpected end of file .* (\S+\.incr\.aof)\.", log)
    if refusal is None:
        return False
    last = (folder / MANIFEST).read_bytes().split()[-5]
    if refusal[1].encode() != last:
        return False
    with (folder / refusal[1]).open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as aof:
            size, whole = len(aof), whole_records(aof)
        if whole is None or whole == size:
            return False
        file.truncate(whole)
        os.fsync(file.fileno())
    extra = {"file": file.name, "kept_bytes": whole, "cut_bytes": size - whole}
    logger.warning("private store had an unfinished last record", extra=extra)
    return True


def whole_records(aof: mmap.mmap | bytes) -> int | None:
    """How many bytes at the start of an append-only file are whole records and transactions.

    `None` if records follow the first unfinished one: then the file is damaged, not torn.
    """
    start = whole = 0
    in_transaction = False
    while record := RECORD.match(aof, start):
        end = record.end()
        name = b""
        for _ in range(int(record[1])):
            word = WORD.match(aof, end)
            if word is None or word.end() + int(word[1]) + 2 > len(aof):
                return None if RECORD_START.search(aof, start + 1) else whole
            end = word.end() + int(word[1]) + 2
            name = name or aof[word.end() : end - 2].upper()
        in_transaction = name == b"MULTI" or (in_transaction and name != b"EXEC")
        start = end
        whole = whole if in_transaction else end
    return None if RECORD_START.search(aof, start) else whole
