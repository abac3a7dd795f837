"""The JSON Schema of vector files (`schema.json`), and the validation of files by this schema.

Objects have only the keys that the schema names, except objects by name, whose number of keys is bounded. Lists,
texts and numbers have bounds. So the depth of a file and the work for a file are bounded, too. `oneOf` lists the
schemas of several kinds of objects. All these schemas have the same first key, whose value is a constant that
identifies the kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, TypeAlias, cast

MAX_KEY_CHARACTERS = 200
Schema: TypeAlias = Mapping[str, Any]
SCHEMA_TEXT = (files("hearsay.vectors") / "schema.json").read_text(encoding="utf-8")
_SCHEMA: Schema = json.loads(SCHEMA_TEXT)


class Misshapen(Exception):
    """The error for an invalid value in a vector. The message has the place of the value in the file, and the broken
    rule.
    """

    def __init__(self, place: str, rule: str) -> None:
        super().__init__(f"{place}: {rule}" if place else rule)


def check(value: object, schema: Schema = _SCHEMA, place: str = "") -> None:
    """Raise `Misshapen` for the first part of `value` that `schema` does not allow. `place` is the path of `value` in
    the file.
    """
    if "$ref" in schema:
        schema = _SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        schema = _case(_object(value, place), schema["oneOf"], place)
    match schema:
        case {"properties": _}:
            _check_fields(_object(value, place), schema, place)
        case {"additionalProperties": of, "maxProperties": most}:
            _check_names(_object(value, place), of, most, place)
        case {"items": of, "minItems": least, "maxItems": most}:
            if not isinstance(value, list) or not least <= len(cast("list[object]", value)) <= most:
                raise Misshapen(place, f"must be a list of {least}…{most} elements")
            for number, each in enumerate(cast("list[object]", value)):
                check(each, of, f"{place}[{number}]")
        case _:
            rule = _broken_rule(value, schema)
            if rule is not None:
                raise Misshapen(place, rule)


def _object(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Misshapen(place, "must be an object")
    return cast("Mapping[str, object]", value)


def _case(found: Mapping[str, object], cases: Sequence[Schema], place: str) -> Schema:
    """Return the schema among `cases` (the schemas in `oneOf`) for the kind of this object. Raise `Misshapen` if none
    fits.
    """
    key = next(iter(cases[0]["properties"]))
    by_word = {case["properties"][key]["const"]: case for case in cases}
    if key not in found:
        raise Misshapen(_below(place, key), "is missing")
    check(found[key], {"enum": list(by_word)}, _below(place, key))
    return by_word[found[key]]


def _check_fields(found: Mapping[str, object], schema: Schema, place: str) -> None:
    fields: Mapping[str, Schema] = schema["properties"]
    for name in schema["required"]:
        if name not in found:
            raise Misshapen(_below(place, name), "is missing")
    for name, each in found.items():
        if name not in fields:
            rule = f"no such key; there are {', '.join(fields)}"
            raise Misshapen(_below(place, name[:MAX_KEY_CHARACTERS]), rule)
        check(each, fields[name], _below(place, name))


def _check_names(found: Mapping[str, object], of: Schema, most: int, place: str) -> None:
    """Raise `Misshapen` for an invalid object whose keys are names that the author of the file chose. `of` is the
    schema of the values.
    """
    if len(found) > most:
        raise Misshapen(place, f"must have {most} keys at most")
    for name, each in found.items():
        if not 1 <= len(name) <= MAX_KEY_CHARACTERS:
            raise Misshapen(place, f"keys must have 1…{MAX_KEY_CHARACTERS} characters")
        check(each, of, _below(place, name))


def _broken_rule(value: object, schema: Schema) -> str | None:
    """Return the rule of the schema that a text, number or boolean breaks; None if it breaks none."""
    right, rule = True, ""
    match schema:
        case {"enum": words}:
            right, rule = type(value) in (str, int) and value in words, f"must be {' or '.join(map(str, words))}"
        case {"type": "boolean"}:
            right, rule = isinstance(value, bool), "must be true or false"
        case {"type": "string", "maxLength": most}:
            right, rule = isinstance(value, str) and 1 <= len(value) <= most, f"must be a text of 1…{most} characters"
            if right and schema.get("format") == "ip":
                right, rule = _is_address(str(value)), "must be an IP address"
        case {"type": "integer", "minimum": low, "maximum": high}:
            step = schema.get("multipleOf", 1)
            right = type(value) is int and low <= value <= high and value % step == 0
            rule = f"must be an integer in {low}…{high}{f', a multiple of {step}' if step > 1 else ''}"
        case {"type": "number", "minimum": low, "maximum": high}:
            right = type(value) in (int, float) and low <= cast("float", value) <= high
            rule = f"must be a number in {low}…{high}"
        case _:  # a constant, by which the case was chosen
            pass
    return None if right else rule


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
