"""Files of vectors, run on our scorer and our routers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay.text.escape import escape
from hearsay.vectors.errors import VectorError
from hearsay.vectors.reading import read_vectors
from hearsay.vectors.router_expectations import run_router
from hearsay.vectors.score_run import run_scores
from hearsay.vectors.shapes import Misshapen


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a vector; `fault` says what is not as expected, if something is not."""

    file: Path
    kind: str
    name: str
    fault: str | None

    def line(self) -> str:
        """For people."""
        place = f"{self.file}: {escape(self.name)}"
        return f"ok    {place}" if self.fault is None else f"FAIL  {place}: {escape(self.fault)}"

    def values(self) -> dict[str, Any]:
        """For programs."""
        return {
            "file": str(self.file), "kind": self.kind, "name": self.name, "held": self.fault is None,
            "fault": self.fault,
        }  # fmt: skip


def run_file(file: Path, implementation: str) -> Iterator[Outcome]:
    """What comes of each vector of a file, with the choices of an implementation."""
    found = read_vectors(file)
    for number, vector in enumerate(found["vectors"]):
        try:
            fault = _fault(found, vector, implementation)
        except Misshapen as error:
            raise VectorError(f"{file}: vectors[{number}].{escape(str(error))}") from None
        yield Outcome(file, found["kind"], vector["name"], fault)


def _fault(file: Mapping[str, Any], vector: Mapping[str, Any], implementation: str) -> str | None:
    if file["kind"] == "router":
        return run_router(vector, implementation)
    return run_scores(vector, implementation, file["tolerance"])
