"""Every rule of a router stands once, by its id; somebody shows or tests it and, if kernels run it, breaks it there.

A rule stands as a bullet `* MESH-3: …` of a module docstring in `core`. Conversations cite the rules that they show
(`# Rules: MESH-3.`), tests those that they hold, in a docstring, kernels those that they follow, and faults planted
into kernels those that they break. Routers with kernels may have rules that no kernel follows: these say *reference
only*, and what switches them on. Scores and the extensions of 1.3 have no kernels yet.
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

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "hearsay" / "core"
KERNELS = ROOT / "src" / "hearsay" / "sim" / "array"
TESTS = ROOT / "tests"
ID = r"[A-Z]+-\d+"
STANDS = re.compile(rf"^\* ({ID})[:,] (.*(?:\n  .*)*)", re.MULTILINE)


@cache
def docstrings(folder: Path) -> list[tuple[Path, str]]:
    """Those of files that have an id somewhere."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(ID, text) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                found.append((file, ast.get_docstring(node) or ""))
    return found


STANDING = [(rule, text, file) for file, text in docstrings(CORE) for rule, text in STANDS.findall(text)]
RULES = {rule: " ".join(text.split()) for rule, text, _ in STANDING}
WITHOUT_KERNELS = {"episub", "extensions", "scores"}
OF_KERNELS = {rule for rule, _, file in STANDING if not WITHOUT_KERNELS & set(file.relative_to(CORE).parts)}
REFERENCE_ONLY = {
    rule: found[1] for rule, text in RULES.items() if (found := re.search(r"\*reference only:\* ([^).]+)", text))
}
FAMILIES = "|".join(sorted({rule.split("-")[0] for rule in RULES}))
CITED = re.compile(rf"\b(?:{FAMILIES})-\d+")


def cited(texts: Iterable[tuple[Path, str]]) -> dict[str, Path]:
    return {rule: file for file, text in texts for rule in CITED.findall(text)}


def conversations() -> Iterator[tuple[Path, str]]:
    for file in sorted((TESTS / "interaction").glob("*.txt")):
        yield file, "\n".join(re.findall(r"^# Rules: .*$", file.read_text(encoding="utf-8"), re.MULTILINE))


SHOWN = cited(conversations())
TESTED = cited((file, text) for file, text in docstrings(TESTS) if file != Path(__file__))
COMPILED = cited(docstrings(KERNELS))
MENTIONED = cited(docstrings(CORE))
BROKEN = {mutant.rule: LIST for mutant in mutants() if mutant.rule is not None}


def test_a_rule_stands_once():
    assert [rule for rule, count in Counter(rule for rule, _, _ in STANDING).items() if count > 1] == []


@pytest.mark.parametrize(
    "citations",
    [SHOWN, TESTED, COMPILED, BROKEN, MENTIONED],
    ids=["shown", "tested", "compiled", "broken", "told"],
)
def test_what_is_cited_stands_somewhere(citations):
    assert {rule: file for rule, file in citations.items() if rule not in RULES} == {}


def test_every_rule_is_shown_or_tested():
    assert sorted(set(RULES) - set(SHOWN) - set(TESTED)) == []


def test_every_rule_of_a_router_with_kernels_is_followed_by_one_or_is_for_the_reference_engine_alone():
    assert sorted(OF_KERNELS - set(COMPILED) - set(REFERENCE_ONLY)) == []


def test_every_rule_that_a_kernel_follows_is_broken_by_a_planted_fault():
    assert sorted(set(COMPILED) - set(BROKEN)) == []


def test_the_rules_for_the_reference_engine_alone(capsys):
    """Printed, because the list is to shrink."""
    with capsys.disabled():
        print("\nrules without a kernel:")
        for rule, switch in REFERENCE_ONLY.items():
            print(f"  {rule}: {switch}")
    assert set(REFERENCE_ONLY) <= OF_KERNELS
    assert len(REFERENCE_ONLY) <= 31
