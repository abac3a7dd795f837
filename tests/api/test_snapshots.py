"""The public interface is recorded in `snapshots/`, so that each of its changes is a changed line there.

`RENEW=1 .venv/bin/python -m pytest tests/api/test_snapshots.py` renews them; docs/reference/stability.md says
what a change means.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from commands import hearsay as run_command
from kills import environment
from pydantic import BaseModel

import hearsay
import hearsay.partial
import hearsay.routers
from hearsay.cli.commands import COMMANDS
from hearsay.cli.commands import hearsay as group
from hearsay.pipeline.output.tables import TABLES
from hearsay.sim.scenario.scenario_file import scenario_schema
from hearsay.studies.budgets import BudgetFile
from hearsay.studies.results import RESULTS
from hearsay.studies.study_file import StudyFile, file_schema
from hearsay.studies.tuning.tune_file import TuneFile
from hearsay.trace.folder.arrow import ColumnBuilder, table_of
from hearsay.trace.language.rows import no_rows

SNAPSHOTS = Path(__file__).with_name("snapshots")
RUN_COMMANDS = """
import json, sys
from click.testing import CliRunner
from hearsay.cli.commands import hearsay
done = {name: CliRunner().invoke(hearsay, arguments) for name, arguments in json.loads(sys.argv[1]).items()}
print(json.dumps({name: [each.exit_code, each.stdout, each.stderr] for name, each in done.items()}))
"""
"""A program that runs commands in one process, where they share the JVM of Spark, and prints their results."""
SMALL = ("--preset", "r1", "--nodes", "20", "--messages", "1")


def require_snapshot(name: str, text: str) -> None:
    file = SNAPSHOTS / name
    if os.environ.get("RENEW"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


def signature(value: Any) -> str:
    """Return the signature, with annotations as they are written; `(…)` if it has none."""
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"


def public_members(value: type, exported: set[type]) -> dict[str, Any]:
    """Return the members that a class has itself, or from bases of the package that are not exported."""
    bases = [
        base for base in value.__mro__ if base.__module__.startswith("hearsay.") and base not in exported - {value}
    ]
    return {name: member for base in reversed(bases) for name, member in vars(base).items()}


def members(value: type, exported: set[type]) -> Iterator[str]:
    """Yield the members of an enum, the fields of a model, or the fields and then the public methods and properties
    of another class.
    """
    if issubclass(value, Enum):
        yield from (f"  {member.name}" for member in value)
        return
    if issubclass(value, BaseModel):
        yield from (f"  {name}" for name in sorted(value.model_fields))
        return
    if dataclasses.is_dataclass(value):
        yield from (f"  {field.name}: {field.type}" for field in dataclasses.fields(value))
    for name, member in sorted(public_members(value, exported).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            yield f"  {name} (property)"
        elif inspect.isfunction(member):
            yield f"  {name}{signature(member)}"
        elif isinstance(member, classmethod | staticmethod):
            yield f"  {name}{signature(member.__func__)}"


def interface_of_module(module: Any) -> str:
    lines: list[str] = []
    exported = {getattr(module, name) for name in module.__all__ if isinstance(getattr(module, name), type)}
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if isinstance(value, type):
            lines += [f"class {name}", *members(value, exported)]
        elif inspect.isfunction(value):
            lines.append(f"{name}{signature(value)}")
        else:
            lines.append(name)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("module", [hearsay, hearsay.partial, hearsay.routers], ids=lambda module: module.__name__)
def test_names_and_signatures(module):
    require_snapshot(f"{module.__name__}.txt", interface_of_module(module))


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of the group, of every command, and of every command of a command."""
    yield ()
    for name in sorted(COMMANDS):
        yield (name,)
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in sorted(command.commands))


def test_the_help_of_all_commands():
    shown: list[str] = []
    for command in commands():
        done = CliRunner(env={"COLUMNS": "100"}).invoke(group, [*command, "--help"], prog_name="hearsay")
        assert done.exit_code == 0, command
        shown.append(f"$ {' '.join(('hearsay', *command))} --help\n{done.output}")
    require_snapshot("help.txt", "\n".join(shown))


def keys(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of each key of a document; the elements of an array have the same path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"{path}.{key}".lstrip(".")
            yield from keys(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{path}[]")


def keys_of(text: str) -> str:
    return "\n".join(dict.fromkeys(keys(json.loads(text))))


def all_keys(documents: Mapping[str, str]) -> str:
    return "".join(f"# {name}\n{keys_of(text)}\n\n" for name, text in documents.items())


def test_the_keys_of_json(tmp_path):
    simulated = run_command("simulate", *SMALL, "--json", "--out", tmp_path / "run")
    node = run_command("node", "--publish", "news", "--json")
    score = run_command("score", "--preset", "lighthouse", "--json")
    files = {
        name: (tmp_path / "run" / name).read_text(encoding="utf-8") for name in ("summary.json", "manifest.json")
    }
    lines = json.dumps([json.loads(line) for line in node.stdout.splitlines()])
    said = {"hearsay simulate --json": simulated.stdout, **files, "hearsay node --json": lines}
    require_snapshot("json.txt", all_keys({**said, "hearsay score --json": score.stdout}))


@pytest.mark.thorough
@pytest.mark.xdist_group("spark")
def test_the_keys_of_json_of_commands_on_spark(tmp_path):
    run, study, budgets = tmp_path / "run", tmp_path / "study.toml", tmp_path / "budgets.toml"
    assert run_command("simulate", *SMALL, "--out", run).returncode == 0
    base = 'base = { preset = "r1", network.nodes = 20, workload.messages = 1 }\n'
    axis = '[[axes]]\nkey = "router.degree"\nvalues = [4, 6]\n'
    study.write_text(f"seeds = 1\n{base}{axis}", encoding="utf-8")
    budget = "budgets.delivery_ratio = { at_least = 0.9 }\n"
    budgets.write_text(f'seeds = 1\n[[cases]]\nname = "small"\n{base}{budget}', encoding="utf-8")
    both = ("--both", "network.nodes=20", "--both", "workload.messages=1", "--seeds", "2")
    asked = {
        "analyze": (run,),
        "sweep": (study, "--out", tmp_path / "sweep"),
        "check": (budgets, "--out", tmp_path / "check"),
        "compare": ("r1", "--set", "router.degree=4", *both, "--out", tmp_path / "compare"),
    }
    few = ("--seeds", "2", "--fresh-seeds", "2", "--runs", "10", "--out", tmp_path / "tune")
    small = ("--set", "network.nodes=20", "--set", "workload.messages=1")
    # This setting changes nothing here, so that no candidate is better by chance.
    same = ("--vary", "router.history_length=[5, 6]", "--aim", "copies_per_delivery")
    asked["tune"] = ("r1", *same, *small, *few)
    commands = {name: [name, *map(str, arguments), "--json"] for name, arguments in asked.items()}
    program = [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)]
    output = subprocess.run(program, stdout=subprocess.PIPE, env=environment(), timeout=300, check=True).stdout
    done: dict[str, tuple[int, str, str]] = json.loads(output)
    assert {name: errors for name, (code, _, errors) in done.items() if code} == {}
    answers = {f"hearsay {name} --json": answer for name, (_, answer, _) in done.items()}
    require_snapshot("json_spark.txt", all_keys(answers))


def test_the_columns_of_tables():
    rows = table_of(ColumnBuilder(1).build(no_rows()))
    lines = ["# the trace", *(f"{field.name} {field.type}" for field in rows.schema), ""]
    for table, schema in TABLES.items():
        lines += [f"# {table}", *(f"{name} {column.kind}" for name, column in schema.columns.items()), ""]
    lines += ["# a study's runs", *(f"{field.name} {field.type}" for field in RESULTS)]
    require_snapshot("tables.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "schema"),
    [("study", file_schema(StudyFile)), ("budget", file_schema(BudgetFile)), ("tune", file_schema(TuneFile))],
)
def test_the_schemas_of_files_that_people_write(name, schema):
    """Without the parts that are copied from the schema of scenarios."""
    scenario = scenario_schema()
    for key in scenario["$defs"]:
        del schema["$defs"][key]
    for key in scenario["properties"].keys() - {"preset"}:
        del schema["$defs"]["BaseTable"]["properties"][key]
    require_snapshot(f"{name}.schema.json", json.dumps(schema, indent=1, ensure_ascii=False) + "\n")


def test_snapshots_do_not_depend_on_the_machine():
    assert all(sys.prefix not in file.read_text(encoding="utf-8") for file in SNAPSHOTS.iterdir())
