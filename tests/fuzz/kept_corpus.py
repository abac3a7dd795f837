"""The inputs kept with the project: a text file per target, with an input per line in base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from fuzz_seeds import seeds

CORPUS = Path(__file__).parent / "corpus"


def file_of(target: str) -> Path:
    return CORPUS / f"{target}.txt"


def kept(target: str) -> list[bytes]:
    """Return the seeds and the kept inputs, which include fixed crashes."""
    path = file_of(target)
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [*seeds(target), *map(b64decode, lines)]


def keep(target: str, inputs: Iterable[bytes]) -> None:
    CORPUS.mkdir(exist_ok=True)
    lines = sorted(
        {b64encode(each).decode() for each in inputs} - {b64encode(each).decode() for each in seeds(target)}
    )
    file_of(target).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
