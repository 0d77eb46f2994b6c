"""Refusal of a file that is no journal, by its first bytes."""

from __future__ import annotations

HEAD = 1 << 10
"""Bytes to read from the file."""
_FIRST = b'{"event":"RunStarted"'
"""Beginning of a journal. With two changed bytes the file still counts as a (damaged) journal."""
_PACKED = (
    (b"\x1f\x8b", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
)


def why_no_journal(head: bytes) -> str | None:
    """Return why a file is no journal, to follow 'it is', and what to do. None if it may be one. `head`: its first bytes."""
    if not head:
        return "empty (0 bytes): start another run (python -m aiperf)"
    if _begins_as_a_journal(head):
        return None
    for magic, command in _PACKED:
        if head.startswith(magic):
            return f"compressed: unpack it with {command} FILE > journal.jsonl"
    return f"not a journal (first bytes {head[:16]!r}): pass the run's folder with the journal that its driver wrote"


def _begins_as_a_journal(head: bytes) -> bool:
    if len(head) < len(_FIRST):
        return _FIRST.startswith(head)
    return sum(here != there for here, there in zip(head, _FIRST, strict=False)) <= 2
