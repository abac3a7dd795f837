"""What is tuned, declared by options or a call instead of a file: `--vary KEY=VALUES`, `--bound 'FIGURE<=NUMBER'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import tomli_w

from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import find_scenario
from hearsay.sim.scenario.toml_text import Document, parse_value
from hearsay.studies.checked_file import Places
from hearsay.studies.errors import StudyError
from hearsay.studies.tuning.tune_file import Tuning, tuning_of
from hearsay.text.toml import shown_value

_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:\.\.({_NUMBER}))?")
_BOUND = re.compile(rf"(\w+)\s*(<=|>=)\s*({_NUMBER})(?:\s+(\w+))?")


@dataclass(frozen=True, slots=True)
class Said:
    """What those who declare it call the parts."""

    vary: str
    aim: str
    bound: str
    condition: str


OPTIONS = Said("--vary", "--aim", "--bound", "--condition")


def declared_tuning(
    scenario: str,
    vary: Sequence[tuple[str, str]],
    aim: str | None,
    bounds: Sequence[str],
    condition: tuple[str, str] | None,
    others: Document,
    settings: Sequence[tuple[str, str]],
    said: Said = OPTIONS,
) -> tuple[Tuning, str]:
    """What is tuned, named after the scenario and all that is asked, and the file that says it; raises `StudyError`.

    `others` are keys at the top of the file, `settings` those of the base scenario.
    """
    document = _document(scenario, vary, aim, bounds, condition, others, said)
    text = tomli_w.dumps(document)
    asked = text + "\n".join(f"{key}={value}" for key, value in settings)
    name = f"{Path(scenario).stem}-{sha256(asked.encode()).hexdigest()[:8]}"
    return tuning_of(document, Places("what is asked", {}), Path(), name).with_settings(settings), text


def _document(
    scenario: str,
    vary: Sequence[tuple[str, str]],
    aim: str | None,
    bounds: Sequence[str],
    condition: tuple[str, str] | None,
    others: Document,
    said: Said,
) -> Document:
    """The document that a file would have."""
    problems: list[str] = []
    document: Document = {**others}
    if aim is None:
        problems.append(f"{said.vary} needs {said.aim} FIGURE: what is to be best?")
    else:
        document["aim"] = aim
    try:
        file, preset = find_scenario(scenario)
        document["base"] = {"preset": preset} if file is None else {"file": str(file.absolute())}
    except ScenarioError as error:
        problems += error.problems
    document["axes"] = [_axis(said.vary, key, values, problems) for key, values in vary]
    if condition is not None:
        document["conditions"] = _axis(said.condition, *condition, problems)
    bounded: dict[str, dict[str, object]] = {}
    for text in bounds:
        found = _BOUND.fullmatch(text)
        if found is None:
            problems.append(
                f"{said.bound} {_on_one_line(text)}: "
                "write it as FIGURE<=NUMBER or FIGURE>=NUMBER, perhaps with a judge: worst"
            )
            continue
        figure, relation, number, judge = found.groups()
        bound = bounded.setdefault(figure, {})
        bound["at_most" if relation == "<=" else "at_least"] = _number(number)
        if judge is not None:
            bound["judge"] = judge
    if bounded:
        document["bounds"] = bounded
    if problems:
        raise StudyError(problems)
    return document


def _axis(option: str, key: str, values: str, problems: list[str]) -> Document:
    said = f"{option} {_on_one_line(f'{key}={values}')}"
    found = _RANGE.fullmatch(values)
    if found is not None:
        first, last, step = (_number(number or "1") for number in found.groups())
        if first >= last or step <= 0:
            problems.append(f"{said}: write a range from the least to the most, 4..12 or 0..1..0.1")
        return {"key": key, "from": first, "to": last, "step": step}
    listed = parse_value(values)
    if not isinstance(listed, list) or not listed:
        problems.append(f"{said}: write the values as an array, [1, 2], or as a range, 4..12 or 0..1..0.1")
    return {"key": key, "values": listed}


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else shown_value(text)


def _number(text: str) -> int | Decimal:
    return Decimal(text) if "." in text else int(text)
