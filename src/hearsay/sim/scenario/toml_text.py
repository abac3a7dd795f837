"""TOML in and out of messages: parsed with exact decimals, mistakes with their line, values as they were written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias, cast

from hearsay.sim.scenario.scenario import ScenarioError
from hearsay.sim.scenario.tables import read_text
from hearsay.sim.scenario.toml_lines import BARE_KEY, KeyPath, locate_lines

Document: TypeAlias = dict[str, object]

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_MAX_SHOWN = 60


def parse(text: str, label: str) -> Document:
    """A document; raises `ScenarioError` with one line that names the label and the line."""
    try:
        return tomllib.loads(text, parse_float=cast(Any, _decimal))
    except RecursionError:
        raise ScenarioError([f"{label}: is nested too deeply"]) from None
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


def dotted(path: Iterable[str | int]) -> str:
    """A path of keys as TOML writes it."""
    return ".".join(
        part if isinstance(part, str) and BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in path
    )


def shown_value(value: object) -> str:
    """A value much as TOML writes it, on one line and not too long."""
    text = value_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def value_text(value: object) -> str:
    """A value as TOML writes it, on one line however long."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return f"[{', '.join(map(value_text, cast('Sequence[object]', value)))}]"
        case dict():
            pairs = cast(Document, value).items()
            return "{" + ", ".join(f"{dotted([key])} = {value_text(inner)}" for key, inner in pairs) + "}"
        case _:
            return str(value)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")  # An exponent beyond what even a decimal can hold.
