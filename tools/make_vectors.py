"""Makes the test vectors in `vectors/`, and the schema of such files.

python tools/make_vectors.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vector_scripts import (
    go_tests,
    gossip_scripts,
    mesh_scripts,
    message_scripts,
    random_scores,
    recorded_calls,
    retention_edges,
    score_edges,
)

from hearsay.vectors.files import FORMAT, VERSION
from hearsay.vectors.schema import SCHEMA_TEXT
from hearsay.vectors.score_run import TOLERANCE

FOLDER = Path(__file__).parents[1] / "vectors"
RANDOM_SCORES = 24
GENERATOR = "Hearsay, tools/make_vectors.py"


def files() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file."""
    yield "vectors.schema.json", SCHEMA_TEXT
    of_go = f"{GENERATOR}, after score_test.go of go-libp2p-pubsub v0.16.0"
    yield _scores("go-tests", of_go, [script.vector() for script in go_tests.scripts()])
    edges = (*score_edges.scripts(), *retention_edges.scripts())
    yield _scores("edges", GENERATOR, [script.vector() for script in edges])
    recorded = f"{GENERATOR}; go's values are recorded from {recorded_calls.source()}"
    yield _scores("recorded", recorded, list(recorded_calls.vectors()))
    yield _scores("random", GENERATOR, [script.vector() for script in random_scores.scripts(RANDOM_SCORES)])
    for name, module in (("mesh", mesh_scripts), ("gossip", gossip_scripts), ("messages", message_scripts)):
        vectors = [script.vector() for script in module.scripts()]
        yield f"router/{name}.json", _written("router", GENERATOR, vectors)


def _scores(name: str, source: str, vectors: list[dict[str, Any]]) -> tuple[str, str]:
    return f"score/{name}.json", _written("score", source, vectors, tolerance=TOLERANCE)


def _written(kind: str, source: str, vectors: list[dict[str, Any]], **more: Any) -> str:
    """Return the text of a file, with a line for each step, so that a changed step is one line of a diff."""
    head = {"format": FORMAT, "version": VERSION, "kind": kind, "source": source, "licence": "MIT", **more}
    parts = ",\n".join(map(_vector, vectors))
    return f'{_line(head)[:-1]},\n"vectors": [\n{parts}\n]}}\n'


def _vector(vector: dict[str, Any]) -> str:
    own = [f"{_line(name)}: {_line(value)}" for name, value in vector.items() if name != "steps"]
    steps = ",\n".join(map(_line, vector["steps"]))
    return "{" + ",\n".join([*own, f'"steps": [\n{steps}\n]']) + "}"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, text in files():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
