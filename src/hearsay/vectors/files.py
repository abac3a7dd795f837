"""Files of vectors, which are read within bounds, and run on our scorer and routers.

An invalid file raises an error of one line: the file, the place in it, and the broken rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.text.escape import escape
from hearsay.user_errors import InvalidInput
from hearsay.vectors.router_run import run_router
from hearsay.vectors.schema import Misshapen, check
from hearsay.vectors.score_run import run_scores


class VectorError(InvalidInput):
    """An invalid file. The message has the file, the place in it, and the broken rule."""


FORMAT = "gossipsub-vectors"
VERSION = 1
LARGEST_BYTES = 64 << 20
MOST_SHOWN = 80
"""Maximum number of characters that an error message quotes from a file."""
MOST_LOOKS = 5_000_000
"""Maximum product of steps and peers in a vector, since each peer is checked after each step."""


def vector_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield each path that is a file, and for each folder its `.json` files except schemas, in ascending order."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.rglob("*.json") if not file.name.endswith("schema.json"))
        if not found:
            raise VectorError(f"{path}: no file in it ends in .json")
        yield from found


def read_vectors(file: Path) -> dict[str, Any]:
    """Return the content of a file of vectors. Raises `VectorError` if it cannot be read or is invalid."""
    try:
        return parse_vectors(read_bytes(file, LARGEST_BYTES), str(file))
    except OSError as error:
        raise VectorError(f"{file}: {error.strerror or error}") from None


def parse_vectors(data: bytes, file: str) -> dict[str, Any]:
    """Return the object in `data`, the content of `file`. Raises `VectorError` if it is invalid."""
    found: Any = _json(data, file)
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found)
        if found.get("format") == FORMAT and _is_newer(found.get("version")):
            raise VectorError(f"{file}: version {found['version']} is not supported; the newest is {VERSION}")
    try:
        check(found)
        _check_names(found["vectors"])
        for number, vector in enumerate(found["vectors"]):
            place = f"vectors[{number}]"
            _check_times(vector["steps"], place)
            if found["kind"] == "score":
                _check_peers(vector, place)
            else:
                _check_work(vector, place)
    except Misshapen as error:
        raise VectorError(f"{file}: {escape(str(error))}") from None
    return found


def _is_newer(version: object) -> bool:
    return type(version) is int and VERSION < version < 1_000_000


def _check_names(vectors: list[dict[str, Any]]) -> None:
    name, count = Counter(vector["name"] for vector in vectors).most_common(1)[0]
    if count > 1:
        raise Misshapen("vectors", f"{name!r} is the name of {count} vectors; names must be unique")


def _check_times(steps: list[dict[str, Any]], place: str) -> None:
    before = 0
    for number, step in enumerate(steps):
        if step["at"] < before:
            raise Misshapen(f"{place}.steps[{number}].at", f"must not be before the previous step, at {before}")
        before = step["at"]


def _check_work(vector: Mapping[str, Any], place: str) -> None:
    """Raise if a router's vector causes too much work: checks of peers after each step, or bytes of messages."""
    steps = vector["steps"]
    connects = sum(step["event"] == "connect" for step in steps)
    if len(steps) * connects > MOST_LOOKS:
        raise Misshapen(place, f"steps times connect events must be {MOST_LOOKS} at most")
    if sum(message["size"] for message in vector["messages"].values()) > LARGEST_BYTES:
        raise Misshapen(f"{place}.messages", f"the sum of sizes must be {LARGEST_BYTES} at most")


def _check_peers(vector: Mapping[str, Any], place: str) -> None:
    """Raise if a vector of scores expects a score of a peer that it does not list, or lists too many peers."""
    steps, peers = vector["steps"], set(vector["peers"])
    if len(peers) < len(vector["peers"]):
        raise Misshapen(f"{place}.peers", "a peer is repeated")
    if len(steps) * len(peers) > MOST_LOOKS:
        raise Misshapen(place, f"steps times peers must be {MOST_LOOKS} at most")
    for number, step in enumerate(steps):
        for expected in (step.get("expect", {}), *step.get("differs", {}).values()):
            for peer in expected:
                if peer not in peers:
                    raise Misshapen(f"{place}.steps[{number}].expect.{peer}", f"is not among {place}.peers")


def _json(data: bytes, file: str) -> Any:
    try:
        return parse_json(data, _once)
    except ValueError as error:
        raise VectorError(f"{file}: not JSON ({escape(str(error))})") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {name[:MOST_SHOWN]!r} is repeated in an object")
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a vector; `fault` is the first difference from the expectations, None if there is none."""

    file: Path
    kind: str
    name: str
    fault: str | None

    def line(self) -> str:
        """Return the outcome as a line for people."""
        place = f"{self.file}: {escape(self.name)}"
        return f"ok    {place}" if self.fault is None else f"FAIL  {place}: {escape(self.fault)}"

    def values(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        return {
            "file": str(self.file), "kind": self.kind, "name": self.name, "held": self.fault is None,
            "fault": self.fault,
        }  # fmt: skip


def run_file(file: Path, implementation: str) -> Iterator[Outcome]:
    """Yield the outcome of each vector of a file, run with the rules of `implementation` (`IMPLEMENTATIONS`)."""
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
