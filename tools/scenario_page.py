"""Writes the tables of scenario keys in docs/reference/scenario.md.

python tools/scenario_page.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from page_tables import with_tables

from hearsay.sim.scenario.scenario_file import scenario_schema

EXAMPLES: Mapping[str, str] = tomllib.loads(
    Path(__file__).with_name("scenario_examples.toml").read_text(encoding="utf-8")
)
"""Examples in TOML, by section; those of `[router]` by router."""
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scenario.md"
_LIMITS = {
    10**6: "10⁶", 10**8: "10⁸", 10**8 - 1: "10⁸−1", 10**9: "10⁹", -(10**9): "−10⁹", 1 << 40: "2⁴⁰",
    (1 << 63) - 1: "2⁶³−1", 30 * 24 * 3600 * 1000: "30 d",
}  # fmt: skip
_BASES = {"randomsub": "floodsub", "meshsub": "floodsub", "gossipsub": "meshsub", "episub": "floodsub"}
"""For a router, another router whose parameters it also has; the page lists only its further parameters."""


def page() -> str:
    """Return the page with up-to-date tables."""
    return with_tables(PAGE, lambda _: _keys())


def _keys() -> str:
    schema = scenario_schema()
    kinds = schema["properties"]["router"]["anyOf"]
    return "\n".join([*_tables(schema, schema, "", "Keys before the first section"), *_routers(kinds)])


def _routers(kinds: list[Mapping[str, Any]]) -> Iterator[str]:
    known = {kind["properties"]["kind"]["const"]: kind for kind in kinds if "const" in kind["properties"]["kind"]}
    for name, kind in known.items():
        base = known[_BASES[name]]["properties"] if name in _BASES else {}
        own = {key: rules for key, rules in kind["properties"].items() if rules != base.get(key) and key != "kind"}
        words = f"Also those of {_BASES[name]}" if name in _BASES else "Every router has these"
        yield from _tables({**kind, "properties": own}, {}, "router", words, name)


def _tables(
    table: Mapping[str, Any], schema: Mapping[str, Any], path: str, meaning: str, router: str = ""
) -> Iterator[str]:
    """Yield heading, example and keys of a table, then those of the tables in it."""
    rows: list[str] = []
    inner: list[str] = []
    for key, rules in table["properties"].items():
        place = f"{path}.{key}" if path else key
        found = _resolved(rules, schema)
        element = _resolved(found.get("items", {}), schema)
        if "properties" in found:
            inner += _tables(found, schema, place, rules.get("description") or found["description"])
        elif "properties" in element:
            inner += _tables(element, schema, f"[{place}]", rules.get("description") or element["description"])
        else:
            required = "required" if key in table.get("required", ()) else _default(rules)
            rows.append(f"|`{key}`|{required}|{_values(found)}|{rules['description'].removesuffix('.')}|")
    yield f"### {_heading(path, router)}\n\n```toml\n{EXAMPLES[router or path]}```\n\n{meaning.removesuffix('.')}.\n"
    if rows:
        yield "\n".join(["|key|default|values|meaning|", "|-|-|-|-|", *rows, ""])
    yield from inner


def _heading(path: str, router: str) -> str:
    if router:
        return f"`[{path}]` with kind `{router}`"
    return f"`[{path.replace('[topics].', 'topics.')}]`" if path else "Top of the file"


def _resolved(rules: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = rules.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][reference] if reference else rules


def _values(rules: Mapping[str, Any]) -> str:
    if "enum" in rules:
        return " ".join(f"`{word}`" for word in rules["enum"])
    if "anyOf" in rules:
        return "table"
    if "minimum" in rules:
        return f"{_limit(rules['minimum'])}…{_limit(rules['maximum'])}"
    if rules["type"] == "array":
        return "list"
    return {"boolean": "boolean", "string": "text"}[rules["type"]]


def _limit(value: float) -> str:
    return _LIMITS.get(int(value), f"{value:g}") if value == int(value) else f"{value:g}"


def _default(rules: Mapping[str, Any]) -> str:
    match rules.get("default"):
        case None | "" | []:
            return ""
        case bool(value):
            return str(value).lower()
        case str(word):
            return f"`{word}`"
        case dict():
            return ""
        case number:
            return f"{number:g}" if isinstance(number, float) else str(number)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
