"""Each rule of a router is defined once; conversations or tests show it, and mutants break it in kernels.

A bullet `* MESH-3: …` of a module docstring in `core` defines a rule. Conversations cite the rules that they show
(`# Rules: MESH-3.`), tests those that they hold, in a docstring, kernels those that they follow, and faults planted
into kernels those that they break. Routers with kernels may have rules that no kernel follows: these say *reference
only*, and name the parameter that switches them on.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from planted_kernels import LIST, mutants

from hearsay.sim.plan.engines import REFERENCE_ONLY

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "hearsay" / "core"
KERNELS = ROOT / "src" / "hearsay" / "sim" / "array"
TESTS = ROOT / "tests"
ID = r"[A-Z]+-\d+"
WITHOUT_KERNELS = {"episub", "scores", "deliveries.py", "score_parts.py"}
ONLY_REFERENCE = r"\*reference only:\* ([^).]+)"
DEFINITION = re.compile(rf"^\* ({ID})[:,] (.*(?:\n  .*)*)", re.MULTILINE)


@cache
def docstrings(folder: Path) -> list[tuple[Path, str]]:
    """Return file and text of the docstrings of all files that contain an id."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(ID, text) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                found.append((file, ast.get_docstring(node) or ""))
    return found


@cache
def definitions() -> list[tuple[str, str, Path]]:
    """Return the definitions of rules: id, text and file."""
    return [(rule, text, file) for file, text in docstrings(CORE) for rule, text in DEFINITION.findall(text)]


@cache
def rules() -> dict[str, str]:
    return {rule: " ".join(text.split()) for rule, text, _ in definitions()}


def rules_with_kernels() -> set[str]:
    return {rule for rule, _, file in definitions() if not WITHOUT_KERNELS & set(file.relative_to(CORE).parts)}


def reference_only() -> dict[str, str]:
    return {rule: found[1] for rule, text in rules().items() if (found := re.search(ONLY_REFERENCE, text))}


def cited(texts: Iterable[tuple[Path, str]]) -> dict[str, Path]:
    families = "|".join(sorted({rule.split("-")[0] for rule in rules()}))
    return {rule: file for file, text in texts for rule in re.findall(rf"\b(?:{families})-\d+", text)}


def conversations() -> Iterator[tuple[Path, str]]:
    for file in sorted((TESTS / "interaction").glob("*.txt")):
        yield file, "\n".join(re.findall(r"^# Rules: .*$", file.read_text(encoding="utf-8"), re.MULTILINE))


def shown_in_conversations() -> dict[str, Path]:
    return cited(conversations())


@cache
def cited_in_tests() -> dict[str, Path]:
    return cited((file, text) for file, text in docstrings(TESTS) if file != Path(__file__))


def cited_in_kernels() -> dict[str, Path]:
    return cited(docstrings(KERNELS))


def broken_by_mutants() -> dict[str, Path]:
    return {mutant.rule: LIST for mutant in mutants() if mutant.rule is not None}


def cited_in_the_core() -> dict[str, Path]:
    return cited(docstrings(CORE))


def test_a_rule_is_defined_once():
    assert [rule for rule, count in Counter(rule for rule, _, _ in definitions()).items() if count > 1] == []


@pytest.mark.parametrize(
    "citations",
    [shown_in_conversations, cited_in_tests, cited_in_kernels, broken_by_mutants, cited_in_the_core],
    ids=["shown", "tested", "compiled", "broken", "mentioned"],
)
def test_every_cited_rule_is_defined(citations):
    assert {rule: file for rule, file in citations().items() if rule not in rules()} == {}


def test_every_rule_is_shown_or_tested():
    assert sorted(set(rules()) - set(shown_in_conversations()) - set(cited_in_tests())) == []


def test_every_rule_of_a_router_with_kernels_is_followed_by_one_or_is_for_the_reference_engine_alone():
    assert sorted(rules_with_kernels() - set(cited_in_kernels()) - set(reference_only())) == []


def test_every_rule_that_a_kernel_follows_is_broken_by_a_planted_fault():
    assert sorted(set(cited_in_kernels()) - set(broken_by_mutants())) == []


def test_the_rules_for_the_reference_engine_alone(capsys):
    """The list is printed. Each parameter that enables such a rule is refused by the array engine."""
    with capsys.disabled():
        print("\nrules without a kernel:")
        for rule, switch in reference_only().items():
            print(f"  {rule}: {switch}")
    assert set(reference_only()) <= rules_with_kernels()
    switches = {name.strip("`") for name in reference_only().values()}
    assert switches == {name for names in REFERENCE_ONLY.values() for name in names}
