"""TOML parsed with exact decimals, and mistakes with their line."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeAlias

from hearsay.foreign_files import parse_toml
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.tables import read_text
from hearsay.sim.scenario.toml_lines import KeyPath, locate_lines

Document: TypeAlias = dict[str, object]

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def parse(text: str, label: str) -> Document:
    """A document; raises `ScenarioError` with one line that names the label and the line."""
    try:
        return parse_toml(text, _decimal)
    except ValueError as error:
        message = str(error)
        place = _PLACE.search(message)
        if place is None:
            raise ScenarioError([f"{label}: {message}"]) from None
        line = place.group(1) or str(text.rstrip().count("\n") + 1)
        raise ScenarioError([f"{label}:{line}: {message[: place.start()]}"]) from None


def parse_file(path: Path) -> tuple[Document, dict[KeyPath, int]]:
    """A document and the lines of its keys."""
    text = read_text(path)
    document = parse(text, str(path))
    return document, locate_lines(text)


def parse_value(text: object) -> object:
    """An override's value: TOML when it is that, a plain string otherwise; what is no text is a value already."""
    if not isinstance(text, str) or "\n" in text:
        return text
    try:
        return parse(f"value = {text}", "")["value"]
    except ScenarioError:
        return text


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")  # An exponent beyond what even a decimal can hold.
