"""What the figures mean, in short: `assets/definitions.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Definition:
    word: str
    text: str


def definitions() -> dict[str, Definition]:
    """By the name of a result table, or of the word defined; in the order of the page."""
    text = files("hearsay.report").joinpath("assets", "definitions.toml").read_text(encoding="utf-8")
    return {
        key: Definition(entry["word"], entry["text"].strip().replace("\n", " "))
        for key, entry in tomllib.loads(text).items()
    }
