"""The command `hearsay score`: exit codes, output, errors, and the written page."""

from __future__ import annotations

import json
import re

import pytest
from clean_set import CLEAN
from commands import hearsay

from hearsay.score_check.check import CHECKS

HOSTILE = "<b>&\u202e\x1b[31m"


@pytest.fixture
def clean(tmp_path):
    path = tmp_path / "score.toml"
    path.write_text(CLEAN, encoding="utf-8")
    return path


def faulty(path, old, new):
    path.write_text(CLEAN.replace(old, new), encoding="utf-8")
    return path


def test_a_clean_file_is_exit_0(clean):
    done = hearsay("score", clean, new_process=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "score.toml: nothing found" in done.stdout
    assert "votes ×4" in done.stdout


def test_a_finding_is_a_line_with_its_place_and_exit_1(clean):
    done = hearsay("score", faulty(clean, "retain_ms = 600000", "retain_ms = 1000"))
    assert (done.returncode, done.stderr) == (1, "hearsay: 1 finding of severity warning or above\n")
    first = done.stdout.splitlines()[0]
    assert re.fullmatch(rf"{re.escape(str(clean))}:18: warning: .* \[forgotten-in-backoff\]", first)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--fail-on", "error"), 0),
        (("--fail-on", "never"), 0),
        (("--fail-on", "note"), 1),
        (("--ignore", "forgotten-in-backoff"), 0),
        (("--only", "forgotten-in-backoff"), 1),
        (("--only", "idle-prunes", "--only", "idle-costs"), 0),
    ],
)
def test_options_choose_the_findings_that_fail(clean, options, code):
    assert hearsay("score", faulty(clean, "retain_ms = 600000", "retain_ms = 1000"), *options).returncode == code


def test_json_is_one_document(clean):
    done = hearsay("score", faulty(clean, "retain_ms = 600000", "retain_ms = 1000"), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["counts"] == {"error": 0, "warning": 1, "note": 0}
    (only,) = found["findings"]
    assert (only["check"], only["place"], only["line"]) == ("forgotten-in-backoff", "score.retain_ms", 18)
    assert only["figures"] == {"retain_s": 1, "backoff_s": 60}
    assert [each["silence"] for each in found["topics"]] == ["caught", "caught"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "give a FILE, or --preset NAME"),
        (("FILE", "--preset", "go"), "give a FILE or --preset, not both"),
        (("FILE", "--validators", "5000"), "--validators 5000: needs --preset"),
        (("--preset", "gerbil"), "--preset gerbil: must be one of go, rust"),
        (("--preset", "ethereum", "--validators", "5"), "--validators 5: must be in 2048…100000000"),
        (
            ("--preset", "filecoin", "--validators", "5000"),
            "--validators 5000: set filecoin does not depend on it",
        ),
        (("FILE", "--only", "idle-prune"), "--only idle-prune: no such check, did you mean idle-prunes?"),
        (("nowhere.toml",), "nowhere.toml: no such file"),
    ],
)
def test_wrong_usage_is_a_line_and_exit_2(clean, arguments, line):
    done = hearsay("score", *(str(clean) if argument == "FILE" else argument for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr


def test_a_preset_has_findings_for_its_topics():
    done = hearsay("score", "--preset", "lighthouse", "--json")
    found = {(each["check"], each["topic"]) for each in json.loads(done.stdout)["findings"]}
    assert ("silence-outweighed", "beacon_block") in found
    assert ("silence-graylists", "beacon_aggregate_and_proof") in found


def test_the_checks_are_listed():
    done = hearsay("score", "--list-checks")
    assert done.returncode == 0
    assert [line.partition(" ")[0] for line in done.stdout.splitlines()] == [each.id for each in CHECKS]


def test_names_of_topics_cannot_control_the_terminal(clean):
    written = HOSTILE.encode("unicode_escape").decode().replace("\\x1b", "\\u001b")
    path = faulty(clean, '"blocks"\nmessages_per_s = 1', f'"{written}"\nmessages_per_s = 1')
    done = hearsay("score", path)
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout
    assert r"<b>&\u202e\x1b[31m" in done.stdout


def test_a_page_is_written_but_does_not_replace_another_file(clean, tmp_path):
    page = tmp_path / "page.html"
    assert hearsay("score", clean, "--page", page).returncode == 0
    assert "Hearsay score check</title>" in page.read_text(encoding="utf-8")
    assert hearsay("score", clean, "--page", page).returncode == 0
    other = tmp_path / "mine.html"
    other.write_text("mine")
    done = hearsay("score", clean, "--page", other)
    assert (done.returncode, other.read_text()) == (1, "mine")
    assert "is not a report of Hearsay" in done.stderr


def test_thousands_of_topics_are_checked(clean):
    table = CLEAN[CLEAN.index("[[score.topics]]") : CLEAN.rindex("[[score.topics]]")]
    many = "".join(table.replace('"blocks"', f'"topic {number}"') for number in range(3000))
    clean.write_text(CLEAN + many, encoding="utf-8")
    done = hearsay("score", clean, "--json", "--fail-on", "never")
    assert done.returncode == 0
    assert sum(each["check"] == "topic-not-there" for each in json.loads(done.stdout)["findings"]) == 3000
