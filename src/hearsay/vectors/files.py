"""Read vector files of bounded size, and run their vectors on Hearsay's scorer and router.

An invalid file raises `VectorError`, whose message is one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.text import escape
from hearsay.user_errors import InvalidInput
from hearsay.vectors.router_run import run_router
from hearsay.vectors.schema import Misshapen, check
from hearsay.vectors.score_run import run_scores


class VectorError(InvalidInput):
    """The error for an invalid vector file. The message names the file and the reason, and for a broken rule also the
    place in the file.
    """


FORMAT = "gossipsub-vectors"
VERSION = 1
_LAST_VERSION = 1_000_000
"""The highest version that an error message treats as a newer format. A higher version is a mistake in the file."""
LARGEST_BYTES = 64 << 20
MOST_SHOWN = 80
"""Maximum number of characters of a repeated key that an error message quotes."""
MOST_LOOKS = 5_000_000
"""Maximum of the number of steps times the number of peers in a vector; with the kind `router`, of connect events in
place of peers. After each step, each peer is checked."""


def vector_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield each path that is not a folder, and for each folder the `.json` files below it, except schemas, in
    ascending order. Raise `VectorError` for a folder without such files.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.rglob("*.json") if not file.name.endswith("schema.json"))
        if not found:
            raise VectorError(f"{path}: no file in it ends in .json")
        yield from found


def read_vectors(file: Path) -> dict[str, Any]:
    """Return the JSON object in a vector file. Raise `VectorError` if the file cannot be read or is invalid."""
    try:
        return parse_vectors(read_bytes(file, LARGEST_BYTES), str(file))
    except OSError as error:
        raise VectorError(f"{file}: {error.strerror or error}") from None


def parse_vectors(data: bytes, file: str) -> dict[str, Any]:
    """Return the JSON object in `data`, the content of the vector file named `file`. Raise `VectorError` if it is
    invalid.
    """
    try:
        found: Any = parse_json(data, _without_repeated_keys)
    except ValueError as error:
        raise VectorError(f"{file}: not JSON ({escape(str(error))})") from None
    match found:
        case {"format": format_, "version": int(version)} if format_ == FORMAT and VERSION < version < _LAST_VERSION:
            raise VectorError(f"{file}: version {version} is not supported; the newest is {VERSION}")
        case _:
            pass
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
    """Raise `Misshapen` if a vector of kind `router` would need too many checks of peers after its steps, or if the
    sum of the sizes of its messages is too large.
    """
    steps = vector["steps"]
    connects = sum(step["event"] == "connect" for step in steps)
    if len(steps) * connects > MOST_LOOKS:
        raise Misshapen(place, f"steps times connect events must be {MOST_LOOKS} at most")
    if sum(message["size"] for message in vector["messages"].values()) > LARGEST_BYTES:
        raise Misshapen(f"{place}.messages", f"the sum of sizes must be {LARGEST_BYTES} at most")


def _check_peers(vector: Mapping[str, Any], place: str) -> None:
    """Raise `Misshapen` if a vector of kind `score` repeats a peer, lists too many peers, or expects the score of a
    peer that it does not list.
    """
    steps, peers = vector["steps"], set(vector["peers"])
    if len(peers) < len(vector["peers"]):
        raise Misshapen(f"{place}.peers", "a peer is repeated")
    if len(steps) * len(peers) > MOST_LOOKS:
        raise Misshapen(place, f"steps times peers must be {MOST_LOOKS} at most")
    for number, step in enumerate(steps):
        differing = {f"differs.{name}": expected for name, expected in step.get("differs", {}).items()}
        for key, expected in {"expect": step.get("expect", {}), **differing}.items():
            for peer in expected:
                if peer not in peers:
                    raise Misshapen(f"{place}.steps[{number}].{key}.{peer}", f"is not among {place}.peers")


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object from its keys and values. Raise `ValueError` if a key is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {name[:MOST_SHOWN]!r} is repeated in an object")
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of running a vector. `fault` describes the first difference from the expectations of the vector;
    None if there is none.
    """

    file: Path
    kind: str
    name: str
    fault: str | None

    def line(self) -> str:
        """Return the outcome as a line of text."""
        place = f"{self.file}: {escape(self.name)}"
        return f"ok    {place}" if self.fault is None else f"FAIL  {place}: {escape(self.fault)}"

    def values(self) -> dict[str, Any]:
        """Return the outcome as an object for JSON."""
        return {**asdict(self), "file": str(self.file), "held": self.fault is None}


def run_file(file: Path, implementation: str) -> Iterator[Outcome]:
    """Yield the outcome of each vector of a file. Hearsay's scorer and router follow the rules of `implementation`,
    one of `IMPLEMENTATIONS`. Raise `VectorError` if the file or a vector is invalid.
    """
    found = read_vectors(file)
    for number, vector in enumerate(found["vectors"]):
        try:
            if found["kind"] == "router":
                fault = run_router(vector, implementation)
            else:
                fault = run_scores(vector, implementation, found["tolerance"])
        except Misshapen as error:
            raise VectorError(f"{file}: vectors[{number}].{escape(str(error))}") from None
        yield Outcome(file, found["kind"], vector["name"], fault)
