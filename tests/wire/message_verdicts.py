"""The file with the verdicts of other implementations on the messages of `message_corpus.py`, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from message_corpus import Case

FILE = Path(__file__).with_name("message_verdicts.txt")
LANGUAGES = ("go", "rust", "js")
ACCEPTED, REFUSED, UNREADABLE = "+", "-", "x"
"""Accepted and forwarded; refused with a penalty for the sender; unreadable, as is the whole RPC."""
_UNASKED = "?"

Verdicts: TypeAlias = dict[str, dict[str, str]]
"""Verdicts by language, and by the name of the message."""


def digest(case: Case) -> str:
    return sha256(case.rpc).hexdigest()[:8]


def read_lines() -> list[tuple[str, str, str]]:
    """Return for each message the digest of its bytes, its verdicts (a character for each language) and its name."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return [tuple(line.split(" ", 2)) for line in lines if not line.startswith("#")]  # pyright: ignore[reportReturnType]


def read_verdicts() -> Verdicts:
    lines = read_lines()
    return {language: {name: said[place] for _, said, name in lines} for place, language in enumerate(LANGUAGES)}


def write_verdicts(cases: list[Case], verdicts: Mapping[str, Mapping[str, str]]) -> None:
    languages = ", ".join(LANGUAGES)
    head = f"# By interop/test_message_verdicts.py. Verdicts of {languages}: + taken, - refused, x with its RPC.\n"
    said = {case.name: "".join(verdicts[name].get(case.name, _UNASKED) for name in LANGUAGES) for case in cases}
    lines = [f"{digest(case)} {said[case.name]} {case.name}\n" for case in cases]
    FILE.write_text(head + "".join(lines), encoding="utf-8")
