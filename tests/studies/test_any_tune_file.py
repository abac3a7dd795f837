"""Arbitrary tune files: valid files are read with their values, and mistakes are reported with file and key."""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from itertools import pairwise
from math import prod

import tomli_w
from any_toml import ANYTHING, AXES, BASES, good_axes, problems, tables
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hearsay.studies.packs import BY_NAME
from hearsay.studies.tuning.space import spaces
from hearsay.studies.tuning.tune_file import asked_tuning, load_tuning

AIMS = tuple(figure.name for figure in BY_NAME.values() if figure.better)
KEYS = ("loss.rate", "network.nodes", "router.degree", "workload.messages", "workload.size_bytes")
NUMBERS = st.integers(-(10**6), 10**6) | st.decimals(-1000, 1000, places=3, allow_nan=False)


@st.composite
def ranges(draw):
    """Draw a range, and the steps that it has."""
    first, step = draw(st.integers(-50, 50)), draw(st.sampled_from([1, 3, Decimal("0.1"), Decimal("2.5")]))
    count = draw(st.integers(2, 12))
    short = draw(st.booleans())
    last = first + (count - 1) * step
    end = last + step / Decimal(2) if short else last
    return {"from": first, "to": end, "step": step}, [first + number * step for number in range(count)]


@st.composite
def axes_of(draw, keys):
    """Draw an axis for each key, with the steps that it has."""
    found = []
    for key in keys:
        values = st.lists(st.integers(-9, 99), min_size=1, max_size=4, unique=True)
        table, steps = draw(ranges() | values.map(lambda listed: ({"values": listed}, listed)))
        found.append(({"key": key, **table}, steps))
    return found


@st.composite
def bounds(draw):
    """Draw the bounds of a metric: one bound with any judge, or two with the default judge, the mean."""
    low, high = sorted((draw(NUMBERS), draw(NUMBERS)))
    if draw(st.booleans()):
        return {"at_least": low, "at_most": high}
    ends = draw(st.sampled_from(["at_least", "at_most"]))
    return {ends: low, "judge": draw(st.sampled_from(["mean", "interval", "p90", "worst"]))}


@st.composite
def files(draw):
    """Draw a file, the steps of its axes, and the steps of its condition."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
    conditioned = len(keys) > 1 and draw(st.booleans())
    axes = draw(axes_of(keys))
    condition = axes.pop() if conditioned else None
    seeds = st.integers(2, 100) | st.lists(st.integers(0, 10**9), min_size=2, max_size=5, unique=True)
    optional = {
        "seeds": seeds,
        "fresh_seeds": st.integers(2, 10_000),
        "runs": st.integers(10, 1_000_000),
        "search_seed": st.integers(0, (1 << 32) - 1),
        "engine": st.sampled_from(["auto", "reference", "array"]),
        "title": st.text('abc √"\\', min_size=1, max_size=9),
        "bounds": st.dictionaries(st.sampled_from(list(BY_NAME)), bounds(), max_size=3),
    }
    finals = st.integers(0, 10**5)
    document = draw(st.fixed_dictionaries({"aim": st.sampled_from(AIMS)}, optional=optional))
    seeds = document.get("seeds", 12)
    if draw(st.booleans()):
        document["final_seeds"] = (seeds if isinstance(seeds, int) else len(seeds)) + draw(finals)
    document |= {"base": {"preset": "r1"}, "axes": [table for table, _ in axes]}
    if condition is not None:
        document["conditions"] = condition[0]
    return document, [steps for _, steps in axes], None if condition is None else condition[1]


def write(folder, document):
    path = folder / "any.toml"
    path.write_text(tomli_w.dumps(document), encoding="utf-8")
    return path


def steps_of(axis):
    assert len(axis.keys) == 1
    return [step[0] for step in axis.steps]


@given(files())
def test_a_valid_file_is_read_with_its_values(tmp_path, asked):
    document, axes, condition = asked
    tuning = load_tuning(write(tmp_path, document))
    assert (tuning.name, tuning.title) == ("any", document.get("title", "any"))
    assert tuning.aim.name == document["aim"]
    assert [steps_of(axis) for axis in tuning.axes] == axes
    assert [axis.keys[0] for axis in tuning.axes] == [table["key"] for table in document["axes"]]
    assert (tuning.conditions and steps_of(tuning.conditions)) == condition
    assert tuning.combinations == prod(map(len, axes))
    seeds = document.get("seeds", 12)
    assert tuning.seeds == (tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds))
    assert len(tuning.fresh_seeds) == document.get("fresh_seeds", 20)
    every = [*sorted(tuning.seeds), *tuning.fresh_seeds, *tuning.final_seeds, tuning.never_seen_seed]
    assert all(before < after for before, after in pairwise(every))
    assert len(tuning.seeds) + len(tuning.final_seeds) == document.get("final_seeds", 4 * len(tuning.seeds))
    assert (tuning.runs, tuning.search_seed) == (document.get("runs", 400), document.get("search_seed", 1))
    assert tuning.engine == document.get("engine", "auto")
    for bound in tuning.bounds:
        said = document["bounds"][bound.figure.name]
        ends = [None if end is None else float(end) for end in (said.get("at_least"), said.get("at_most"))]
        assert ([bound.at_least, bound.at_most], bound.judge) == (ends, said.get("judge", "mean"))
    assert [bound.figure.name for bound in tuning.bounds] == list(document.get("bounds", {}))
    assert len(tuning.study.axes) == len(axes) + (condition is not None)


def outside(low, high):
    """Return a strategy for integers outside the range, and for values that are no integers."""
    return st.integers(max_value=low - 1) | st.integers(min_value=high + 1) | st.sampled_from(["", "7", 2.5, [], {}])


def words_except(*good):
    return st.text(max_size=9).filter(lambda text: text not in good) | st.sampled_from([0, 1.5, [], {}, True])


WRONG = {
    ("seeds",): (st.integers(-(1 << 62), 1) | st.sampled_from(["", 2.5, {}, [], [1, 1], [1, -1], [7]]), "must be "),
    ("fresh_seeds",): (outside(2, 10_000), "in 2…10000"),
    ("runs",): (outside(10, 1_000_000), "in 10…1000000"),
    ("final_seeds",): (st.integers(-(1 << 62), 1) | st.integers(1_000_001, 1 << 62), "in 2…1000000"),
    ("search_seed",): (outside(0, (1 << 32) - 1), "in 0…4294967295"),
    ("cores_per_task",): (outside(1, 1024), "in 1…1024"),
    ("engine",): (words_except("auto", "reference", "array"), "must be one of auto, reference, array"),
    ("aim",): (words_except(*AIMS), f"must be one of {', '.join(AIMS)}"),
    ("bounds", "delivery_ratio", "at_least"): (st.sampled_from(["", "x", True, [], {}]), "must be a number"),
    ("bounds", "delivery_ratio", "judge"): (
        words_except("mean", "interval", "p90", "worst"),
        "must be one of mean, ",
    ),
    ("base", "preset"): (words_except("r1", "simsub"), "must be one of"),
    ("axes", 0, "key"): (st.sampled_from(["", "seed", 7, True, [], {}]), "must name a key of a scenario"),
    ("axes", 0, "values"): (st.sampled_from(["", 7, True, {}]), "must be an array"),
}
"""By place in a file, a strategy for wrong values and a part of the message."""
PLAIN = {
    "aim": "latency_p99_ms",
    "seeds": 4,
    "base": {"preset": "r1"},
    "bounds": {"delivery_ratio": {"at_least": 0.9, "judge": "mean"}},
    "axes": [{"key": "router.degree", "values": [4, 6]}],
}


@st.composite
def mistakes(draw):
    path = draw(st.sampled_from(sorted(WRONG, key=str)))
    values, said = WRONG[path]
    return path, draw(values), said


@given(mistakes())
@example((("fresh_seeds",), 1, "in 2…10000"))
@example((("seeds",), [1, -1], "must be "))
def test_one_mistake_is_one_line_with_file_line_key_and_what_is_allowed(tmp_path, mistake):
    path, value, said = mistake
    document = deepcopy(PLAIN)
    # Integers that TOML cannot have are another mistake.
    assume(not (isinstance(value, int) and abs(value) >= 1 << 63))
    table = document
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    file = write(tmp_path, document)
    (line,) = problems(lambda: load_tuning(file))
    place, _, rest = line.partition(": ")
    assert place.startswith(f"{file}:"), line
    upto = file.read_text(encoding="utf-8").splitlines()[: int(place.removeprefix(f"{file}:"))]
    # Elements of a list stand below its key.
    of_the_key = next(each for each in reversed(upto) if not each.startswith(" "))
    assert any(str(path[-1]) in each for each in (upto[-1], of_the_key)), (line, upto[-1])
    assert ".".join(map(str, path)) in rest, line
    assert said in rest, line
    assert "\n" not in line


VALUES = ANYTHING | st.sampled_from(AIMS[:2])
GOOD_AXES = good_axes(*KEYS)
ANY = st.fixed_dictionaries(
    {},
    optional={
        "aim": VALUES | st.sampled_from(AIMS),
        "seeds": VALUES,
        "fresh_seeds": VALUES,
        "runs": VALUES,
        "search_seed": VALUES,
        "engine": VALUES,
        "base": BASES,
        "axes": VALUES | st.lists(AXES | GOOD_AXES, max_size=3),
        "conditions": VALUES | AXES | GOOD_AXES,
        "bounds": VALUES | st.dictionaries(st.sampled_from([*AIMS[:3], "x"]), tables("at_least", "at_most", "judge")),
        "aims": VALUES,
    },
)


def list_small_spaces(tuning) -> None:
    if tuning.combinations <= 12:
        spaces(tuning)


@given(ANY)
def test_any_file_is_read_or_reported_in_lines(tmp_path, document):
    path = write(tmp_path, document)
    said = problems(lambda: list_small_spaces(load_tuning(path)))
    assert all(line and "\n" not in line for line in said)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_a_file_that_is_not_toml_is_reported_in_lines(tmp_path, data):
    path = tmp_path / "any.toml"
    path.write_bytes(data)
    said = problems(lambda: load_tuning(path))
    assert said
    assert all(line.startswith(str(path)) and "\n" not in line for line in said)


TEXTS = st.text("0123456789.-[],<>= aeworst_\"'\n", max_size=16)


@given(
    vary=st.lists(st.tuples(st.sampled_from([*KEYS, "", "x"]), TEXTS | st.just("4..6")), max_size=2),
    aim=st.sampled_from([*AIMS[:2], "", None]),
    bound=TEXTS | st.builds("{}{}{}".format, st.sampled_from([*AIMS[:2], "x"]), st.sampled_from(["<=", ">="]), TEXTS),
    condition=st.lists(st.tuples(st.sampled_from(KEYS), TEXTS), max_size=1),
)
def test_any_options_are_read_or_reported_in_lines(vary, aim, bound, condition):
    said = problems(lambda: list_small_spaces(asked_tuning("r1", vary, aim, [bound], condition, {}, [])[0]))
    assert all(line and "\n" not in line for line in said)
