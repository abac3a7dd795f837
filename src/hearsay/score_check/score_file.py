"""Score parameters from a file: a scenario with `[router.score]`, or `[score]` and what is expected.

    [expect]
    degree = 8
    round_trip_ms = 40

    [[expect.topics]]
    topic = "blocks"
    messages_per_s = 0.2

    [score]                     # as [router.score] of a scenario, with [score.thresholds] and [[score.topics]]
    decay_interval_ms = 1000

All that is wrong is said at once, a line each with file, line, key, value and rule (`ScenarioError`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import ParameterError, Violation
from hearsay.score_check.of_scenario import subject_of_scenario
from hearsay.score_check.subject import Expectations, Subject, Traffic
from hearsay.score_check.topic_groups import Topics, grouped, groups_of_all
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.scenario.toml_text import Document, KeyPath, parse_file
from hearsay.text.toml import shown_value

TABLES = ("score", "expect")


def read_subject(path: Path) -> Subject:
    """What the file says; raises `ScenarioError` with everything that is wrong."""
    document, paths = parse_file(path)
    lines = {_dotted(key): line for key, line in paths.items()}
    if not document.keys() & set(TABLES):
        return subject_of_scenario(load_scenario(path), str(path), lines)
    problems = [
        f"{path}:{paths[key,]}: {key}: stands in no file with [score] or [expect]; those are all it has"
        for key in document
        if key not in TABLES
    ]
    if "score" not in document:
        raise ScenarioError([*problems, f"{path}: has no [score] beside its [expect]"])
    subject = _subject(document, str(path), lines, problems)
    if problems or subject is None:
        raise ScenarioError(problems)
    return subject


def _subject(document: Document, file: str, lines: Mapping[str, int], problems: list[str]) -> Subject | None:
    score, expected, there = None, None, None
    violations: list[Violation] = []
    try:
        score = ScoreSet.from_mapping(_table(document, "score"))
    except ParameterError as error:
        violations += [Violation(f"score.{each.field}", each.value, each.rule) for each in error.violations]
    try:
        expected, there = _expected(_table(document, "expect"))
    except ParameterError as error:
        violations += [Violation(f"expect.{each.field}", each.value, each.rule) for each in error.violations]
    named = Subject(file, ScoreSet(), Expectations(), (), lines=lines)
    told = [(named.line_of(each.field), each) for each in violations]
    for line, each in sorted(told, key=lambda one: one[0]):
        place = f"{file}:{line}" if line else file
        said = "" if each.value is None else f" = {shown_value(each.value)}"
        problems.append(f"{place}: {each.field.rstrip('.')}{said}: {each.rule}")
    if score is None or expected is None:
        return None
    groups, unmet = grouped(score, there, "score") if there else (groups_of_all(score, "score"), [])
    return Subject(file, score, expected, groups, unmet, lines=lines)


def _expected(values: Mapping[str, object]) -> tuple[Expectations, list[Topics]]:
    own = {key: value for key, value in values.items() if key != "topics"}
    wrong: list[Violation] = []
    there: dict[str, Topics] = {}
    expected = None
    try:
        expected = Expectations.from_mapping(own)
    except ParameterError as error:
        wrong += error.violations
    for number, table in _tables(values.get("topics", []), wrong):
        rest = dict(table)
        name = rest.pop("topic", None)
        if not isinstance(name, str) or not name:
            wrong.append(Violation(f"topics.{number}.topic", name, "must be the name of a topic"))
            continue
        if name in there:
            wrong.append(Violation(f"topics.{number}.topic", name, "is there twice"))
        try:
            traffic = Traffic.from_mapping(rest)
        except ParameterError as error:
            wrong += [Violation(f"topics.{number}.{each.field}", each.value, each.rule) for each in error.violations]
            continue
        rate = traffic.messages_per_s if "messages_per_s" in rest else None
        there[name] = Topics(name, {name: traffic.count}, rate)
    if expected is None or wrong:
        raise ParameterError(tuple(wrong))
    return expected, list(there.values())


def _table(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name, {})
    if isinstance(found, Mapping):
        return cast("Mapping[str, object]", found)
    raise ParameterError((Violation("", found, "must be a table"),))


def _tables(given: object, wrong: list[Violation]) -> Iterator[tuple[int, Mapping[str, object]]]:
    tables = cast("list[object]", given) if isinstance(given, list) else [given]
    for number, table in enumerate(tables):
        if isinstance(table, Mapping):
            yield number, cast("Mapping[str, object]", table)
        else:
            wrong.append(Violation(f"topics.{number}", table, "must be a table, as in [[expect.topics]]"))


def _dotted(path: KeyPath) -> str:
    """A key as parameters name it: `score.topics.0.topic_weight`."""
    return ".".join(map(str, path))
