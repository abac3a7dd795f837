"""Arbitrary files of studies and budgets: they are read, or refused with lines that give the reasons."""

from __future__ import annotations

from math import prod

import tomli_w
from any_toml import ANYTHING, AXES, BASES, good_axes, problems, tables
from hypothesis import given
from hypothesis import strategies as st

from hearsay.studies.budgets import load_budgets
from hearsay.studies.points import points_of
from hearsay.studies.study_file import load_study

GOOD_AXES = good_axes("loss.rate", "network.nodes")
STUDIES = st.fixed_dictionaries(
    {},
    optional={
        "seeds": ANYTHING,
        "engine": ANYTHING,
        "cores_per_task": ANYTHING,
        "traces": ANYTHING,
        "base": BASES,
        "axes": ANYTHING | st.lists(AXES | GOOD_AXES, max_size=3),
        "sead": ANYTHING,
    },
)
CASES = tables("name", "base", "budgets")
BUDGETS = st.fixed_dictionaries({}, optional={"seeds": ANYTHING, "cases": ANYTHING | st.lists(CASES, max_size=3)})


def assert_lines(said: list[str]) -> None:
    assert all(line and "\n" not in line for line in said)


@given(STUDIES)
def test_studies(tmp_path, document):
    path = tmp_path / "any.toml"
    path.write_text(tomli_w.dumps(document), encoding="utf-8")

    def load() -> None:
        study = load_study(path)
        if prod((len(axis.steps) for axis in study.axes), start=len(study.seeds)) <= 1000:
            points_of(study)

    assert_lines(problems(load))


@given(BUDGETS)
def test_budgets(tmp_path, document):
    path = tmp_path / "any.toml"
    path.write_text(tomli_w.dumps(document), encoding="utf-8")
    assert_lines(problems(lambda: load_budgets(path)))


@given(st.integers(0, 1000), st.integers(1, 10**6), st.integers(2, 20))
def test_ranges_go_from_one_end_to_the_other(tmp_path, start, width, count):
    path = tmp_path / "any.toml"
    bounds = f"from = {start}\nto = {start + width}\ncount = {count}"
    path.write_text(f'[[axes]]\nkey = "workload.size_bytes"\n{bounds}')
    said = problems(lambda: load_study(path))
    # Steps that round to the same number are refused.
    assert bool(said) == (width < count - 1), said
    if not said:
        values = [step[0] for step in load_study(path).axes[0].steps]
        assert (values[0], values[-1], len(values)) == (start, start + width, count)
        assert values == sorted(values)
