"""The rows of docs/reference/security.md: a quantity, its bound, the setting of the bound, and its tests."""

from __future__ import annotations

import re
import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "security.md"
HEAD = ["what", "bound or answer", "setting", "tests"]
NONE = "—"
_UNITS = {
    "ms": 0.001, "s": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
    "minutes": 60, "minute": 60, "hours": 3600, "hour": 3600, "days": 86400,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    what: str
    bound: str
    setting: str | None
    tests: tuple[str, ...]

    def amount(self) -> float:
        """Return the number at the beginning of the bound: in seconds for times, in bytes for sizes, else a count."""
        number, unit = re.match(r"([\d,.]*\d) ?(\w*)", self.bound).groups()
        return float(number.replace(",", "")) * _UNITS.get(unit, 1)


def rows() -> list[Row]:
    """Return the rows of all tables with the columns `HEAD`."""
    found = []
    reading = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells == HEAD:
            reading = True
        elif not cells:
            reading = False
        elif reading and not set(cells[0]) <= {"-", " "}:
            what, bound, setting, tests = cells
            named = None if setting == NONE else setting.strip("`")
            found.append(Row(what, bound, named, tuple(re.findall("`([^`]+)`", tests))))
    return found


def default(setting: str) -> object:
    """Return the default of a setting: a path from a class of limits, or a constant of a module."""
    first, *path = setting.split(".")
    if first[0].isupper():
        value: object = _class_named(first)
        for name in path:
            value = _default_of(value, name)
        return value
    *module, constant = setting.split(".")
    return getattr(import_module(".".join(["hearsay", *module])), constant)


def _class_named(name: str) -> type:
    for module in ("hearsay.node.node", "hearsay.core.mesh.gossipsub", "hearsay.libp2p.rendezvous_streams"):
        import_module(module)
    for name_of_module, module in list(sys.modules.items()):
        if name_of_module.startswith("hearsay.") and isinstance(found := getattr(module, name, None), type):
            return found
    raise LookupError(f"no class {name}")


def _default_of(owner: object, name: str) -> object:
    if not isinstance(owner, type):
        return getattr(owner, name)
    assert is_dataclass(owner)
    field = next((field for field in fields(owner) if field.name == name), None)
    if field is None:
        raise LookupError(f"{owner.__name__} has no {name}")
    return field.default_factory() if field.default_factory is not MISSING else field.default


def files_of_tests() -> dict[str, Path]:
    """Return the file of each test, by `file::test`, and of each conversation, by the name of its file."""
    found = {script.name: script for script in (TESTS / "interaction").glob("*.txt")}
    for file in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?(?:def )?([tT]est\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            found[f"{file.name}::{name}"] = file
    return found
