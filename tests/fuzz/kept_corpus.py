"""The stored corpus: a text file for each target, with one input in base64 on each line."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from fuzz_seeds import seeds

CORPUS = Path(__file__).parent / "corpus"


def corpus_file(target: str) -> Path:
    return CORPUS / f"{target}.txt"


def stored_inputs(target: str) -> list[bytes]:
    """Return the seeds and the stored inputs. These include inputs that once broke a contract."""
    path = corpus_file(target)
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [*seeds(target), *map(b64decode, lines)]


def store_inputs(target: str, inputs: Iterable[bytes]) -> None:
    """Replace the stored inputs of a target by these, without seeds."""
    CORPUS.mkdir(exist_ok=True)
    lines = sorted(
        {b64encode(each).decode() for each in inputs} - {b64encode(each).decode() for each in seeds(target)}
    )
    corpus_file(target).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
