"""Whatever a file says, it is a study or budget, or there are lines that say why not."""

from __future__ import annotations

import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from hearsay.studies.budgets import load_budgets
from hearsay.studies.errors import StudyError
from hearsay.studies.points import points_of
from hearsay.studies.study_file import load_study

SCALARS = (
    st.booleans()
    | st.integers(-3, 10**6)
    | st.floats(allow_nan=True)
    | st.sampled_from(["", "r1", "reference", "loss.rate", "network.nodes", "router", "log", "worst", "\n", "seed"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["preset", "nodes", "x"]), inner),
    max_leaves=5,
)


def tables(*keys: str):
    return st.dictionaries(st.sampled_from(keys), VALUES, max_size=5)


AXES = tables("key", "keys", "values", "from", "to", "step", "count", "spacing", "labels", "name")
GOOD_AXIS = st.fixed_dictionaries({"key": st.sampled_from(["loss.rate", "network.nodes"]), "values": VALUES})
STUDIES = st.fixed_dictionaries(
    {},
    optional={
        "seeds": VALUES,
        "engine": VALUES,
        "cores_per_task": VALUES,
        "traces": VALUES,
        "base": VALUES | tables("preset", "file", "network", "router", "loss", "seed"),
        "axes": VALUES | st.lists(AXES | GOOD_AXIS, max_size=3),
        "sead": VALUES,
    },
)
CASES = tables("name", "base", "budgets")
BUDGETS = st.fixed_dictionaries({}, optional={"seeds": VALUES, "cases": VALUES | st.lists(CASES, max_size=3)})


def problems(load) -> list[str]:
    """What is said about a file; nothing if it is good."""
    try:
        load()
    except StudyError as error:
        return error.problems or ["no reason given\n"]
    return []


def assert_lines(said: list[str]) -> None:
    assert all(line and "\n" not in line for line in said)


@given(STUDIES)
def test_studies(tmp_path, document):
    path = tmp_path / "any.toml"
    path.write_text(tomli_w.dumps(document), encoding="utf-8")

    def load() -> None:
        study = load_study(path)
        if study.runs <= 1000:
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
