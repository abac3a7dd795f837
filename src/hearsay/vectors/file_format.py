"""A file of vectors: its version, where it comes from, and vectors of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearsay.vectors import router_format, score_format
from hearsay.vectors.shapes import Cases, Listing, Number, Shape, Table, Text, Word

FORMAT = "gossipsub-vectors"
VERSION = 1
MOST_VECTORS = 10_000
_ABOUT = {
    "name": Text("what the vector is called; once in a file"),
    "description": Text("what it shows", 2_000),
    "specification": Text("the section that says so", 500),
}


def _file(vector: Mapping[str, Shape], **more: Shape) -> Table:
    vectors = Listing(Table({**_ABOUT, **vector}, ("name", "description", *vector)), MOST_VECTORS, least=1)
    head = {
        "format": Word((FORMAT,)),
        "version": Word((VERSION,)),
        "source": Text("who made the file, and out of what", 2_000),
        "licence": Text("under which it may be taken over"),
    }
    return Table({**head, **more, "vectors": vectors}, ("format", "version", *more, "vectors"))


FILE = Cases(
    "kind",
    {
        "score": _file(
            score_format.VECTOR,
            tolerance=Number(
                0, 1e-3, "how far a number may be off: |found − expected| ≤ tolerance · max(1, |expected|)"
            ),
        ),
        "router": _file(router_format.VECTOR),
    },
)


def vectors_schema() -> dict[str, Any]:
    shared: dict[str, dict[str, Any]] = {}
    made = FILE.schema(shared)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{FORMAT} {VERSION}"}
    return {**head, **made, "$defs": shared}
