"""`hearsay vectors`: a line for each vector, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import make_vectors
from commands import hearsay
from fuzz_seeds import seeds

SOUND = seeds("vectors")[0]


def test_vectors_that_hold(tmp_path):
    file = tmp_path / "one.json"
    file.write_bytes(SOUND)
    done = hearsay("vectors", tmp_path, file, new_process=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ok    {file}: one\n" * 2


def test_a_vector_that_does_not_hold(tmp_path):
    file = tmp_path / "one.json"
    file.write_bytes(SOUND)
    done = hearsay("vectors", file, "--as", "go")
    assert done.returncode == 1
    assert done.stdout == f"FAIL  {file}: one: step 1, reject at 5 us: the score of A is -1, not 0\n"
    assert done.stderr == "hearsay: 1 of 1 vectors do not hold\n"


def test_results_as_json(tmp_path):
    file = tmp_path / "one.json"
    file.write_bytes(SOUND)
    done = hearsay("vectors", "--json", file, "--as", "go")
    fault = "step 1, reject at 5 us: the score of A is -1, not 0"
    one = {"file": str(file), "kind": "score", "name": "one", "held": False, "fault": fault}
    assert (done.returncode, json.loads(done.stdout)) == (1, {"as": "go", "failed": 1, "vectors": [one]})


def test_a_file_without_vectors_is_an_error(tmp_path):
    file = tmp_path / "one.json"
    file.write_text("{}", encoding="utf-8")
    done = hearsay("vectors", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"hearsay: {file}: kind: is missing\n"
    assert hearsay("vectors", tmp_path / "nowhere").returncode == 2
    assert hearsay("vectors").returncode == 2


def test_all_vectors_of_the_project_hold():
    done = hearsay("vectors", make_vectors.FOLDER)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 80
    assert str(Path("score") / "recorded.json") in done.stdout
