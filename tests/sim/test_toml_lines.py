"""Line numbers of TOML keys: in a text with all forms of TOML, and in random texts."""

import tomllib
from collections.abc import Iterator

import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from hearsay.sim.scenario.reading import KeyPath, locate_lines

TEXT = '''# [comment]
top = 1 # = [[
"quoted.key" = "a # \\" [ ] ="
'literal' = 'C:\\'
date = 1979-05-27 07:32:00 # a blank inside
a . "b c" . d = { x = 1, y = [ { z = "}" } ] }
long = """
key = 3
\\""" still """""
raw = \'\'\'
[no]
\'\'\'\'
many = [
  1, # one
  [2,
   3],
  { in = 4 },
]

[deep . er]
value = true
[[list]]
name = 1
[list.sub]
name = 2
  [[list]]
  [[list.inner]]
  name = 3
  [[list.inner]]
  name = 4
[last]'''

LINES: dict[KeyPath, int] = {
    ("top",): 2,
    ("quoted.key",): 3,
    ("literal",): 4,
    ("date",): 5,
    ("a", "b c", "d", "y", 0, "z"): 6,
    ("long",): 7,
    ("raw",): 10,
    ("many",): 13,
    ("many", 0): 14,
    ("many", 1): 15,
    ("many", 1, 1): 16,
    ("many", 2, "in"): 17,
    ("deep",): 20,
    ("deep", "er"): 20,
    ("deep", "er", "value"): 21,
    ("list",): 22,
    ("list", 0): 22,
    ("list", 0, "name"): 23,
    ("list", 0, "sub"): 24,
    ("list", 0, "sub", "name"): 25,
    ("list", 1): 26,
    ("list", 1, "inner", 0, "name"): 28,
    ("list", 1, "inner", 1): 29,
    ("list", 1, "inner", 1, "name"): 30,
    ("last",): 31,
}


def paths(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def test_all_forms():
    found = locate_lines(TEXT)
    assert {path: found.get(path) for path in LINES} == LINES
    assert set(found) == {path for path, _ in paths(tomllib.loads(TEXT))}


def test_windows_line_ends():
    assert locate_lines(TEXT.replace("\n", "\r\n")) == locate_lines(TEXT)


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["a", "b", "[", "="]
)
LEAVES = st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.datetimes() | KEYS
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
    ),
    max_size=5,
)


@given(DOCUMENTS, st.booleans())
def test_every_path_is_found_and_its_line_contains_the_key(document: dict[str, object], multiline: bool):
    text = tomli_w.dumps(document, multiline_strings=multiline)
    found = locate_lines(text)
    assert set(found) == {path for path, _ in paths(tomllib.loads(text))}
    lines = text.split("\n")
    for path, line in found.items():
        key = path[-1]
        if isinstance(key, str):
            written = tomli_w.dumps({key: 0}).removesuffix(" = 0\n")
            assert written in lines[line - 1]


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(0, 3))
def test_values_are_on_the_reported_lines(gaps: list[int], indent: int):
    text = ""
    expected: dict[KeyPath, int] = {}
    for number, gap in enumerate(gaps):
        text += "\n" * gap + " " * indent + f"[[t]] # {number}\n"
        expected["t", number] = text.count("\n")
        text += "#\n" * gap + f"v = {number}\n"
        expected["t", number, "v"] = text.count("\n")
    found = locate_lines(text)
    assert {path: line for path, line in found.items() if len(path) > 1} == expected
