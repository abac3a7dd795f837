"""docs/questions.md: its commands are valid, and print the lines below them."""

from __future__ import annotations

import re
import shutil

import pytest
from commands import hearsay

import questions
from hearsay.metrics import METRICS

PAGE = questions.PAGE.read_text(encoding="utf-8")
ASKED = questions.questions(PAGE)
UNANSWERED = {4, 5, 9}
RUNS_NOTHING = {"sweep": "--dry-run", "compare": "--dry-run"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("questions")
    shutil.copytree(questions.ROOT / "studies", place / "studies")
    return place


@pytest.mark.parametrize("run", [run for runs in ASKED.values() for run in runs], ids=lambda run: run.words[1])
def test_a_command_of_the_page_would_run(run, folder):
    done = hearsay(*run.words, RUNS_NOTHING[run.words[0]], cwd=folder)
    assert done.returncode == 0, done.stderr


def test_all_questions_are_on_the_page_and_all_but_three_are_answered():
    assert [*ASKED] == [*range(1, 16)]
    assert {number for number, runs in ASKED.items() if not runs} == UNANSWERED
    assert sum(map(len, ASKED.values())) == PAGE.count("```sh\nhearsay ")


def test_lines_of_comparisons_begin_with_headings_of_metrics():
    headings = {metric.heading for metric in METRICS}
    lines = [line for runs in ASKED.values() for run in runs if run.words[0] == "compare" for line in run.lines]
    assert {re.split(" {2,}", line)[0] for line in lines} - headings == set()


def test_a_run_is_a_command_with_lines_of_its_output():
    page = "## 1. Why?\n\n```sh\nhearsay sweep a \\\n    --seeds 2\n```\n\n```text\nx  1\ny  2\n```\n\n## 2. How?\n"
    asked = questions.questions(page)
    assert asked == {1: [questions.Run("hearsay sweep a \\\n    --seeds 2", ("x  1", "y  2"))], 2: []}
    assert asked[1][0].words == ["sweep", "a", "--seeds", "2"]


@pytest.mark.thorough
def test_a_question_asked_again_has_the_same_answer():
    """Question 13 takes the least CPU. A line that the command does not print is reported."""
    (run,) = ASKED[13]
    assert questions.missing([questions.Run(run.command, (*run.lines, "a line of another run"))]) == [
        "a line of another run"
    ]
