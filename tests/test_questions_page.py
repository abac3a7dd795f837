"""docs/questions.md: its commands are commands, and what stands below them is what they print."""

from __future__ import annotations

import shutil

import pytest
from commands import hearsay

import questions

PAGE = questions.PAGE.read_text(encoding="utf-8")
ASKED = questions.questions(PAGE)
UNANSWERED = {4, 5, 9}
RUNS_NOTHING = {"simulate": "--show-scenario", "sweep": "--dry-run", "compare": "--dry-run", "tune": "--dry-run"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("questions")
    shutil.copytree(questions.ROOT / "studies", place / "studies")
    return place


@pytest.mark.parametrize("command", [command for question in ASKED for command in question.commands])
def test_a_command_of_the_page_would_run(command, folder):
    words = questions.words_of(command)
    done = hearsay(*words, RUNS_NOTHING[words[0]], cwd=folder)
    assert done.returncode == 0, done.stderr


def test_all_questions_stand_on_the_page_and_all_but_three_are_answered():
    numbers = [int(section["number"]) for section in questions.SECTION.finditer(PAGE)]
    assert numbers == list(range(1, 16))
    assert [question.number for question in ASKED] == [number for number in numbers if number not in UNANSWERED]


def test_every_command_has_been_run():
    commands = [command for question in ASKED for command in question.commands]
    assert len(commands) == len(set(commands)) == PAGE.count("<!-- run -->\n") == PAGE.count("\nTook ")
    assert PAGE.count("<!-- end -->") == len(commands) + 1
    assert questions.with_place(PAGE, 1, 0) != PAGE


def test_only_what_was_printed_is_replaced():
    page = (
        "## 1. Why?\n\nBy hand.\n\n<!-- run -->\n```\nhearsay sweep a \\\n    --seeds 2\n```\n<!-- end -->\n\nSo.\n"
    )
    (question,) = questions.questions(page)
    assert questions.words_of(question.commands[0]) == ["sweep", "a", "--seeds", "2"]
    once = questions.with_answer(page, question.commands[0], "A: x\n\n1 2 \n\n\nagain: hearsay\n", "Took 1 s.")
    assert once == page.replace("2\n```\n", "2\n\n1 2\n```\n\nTook 1 s.\n\n")
    assert questions.with_answer(once, question.commands[0], "3\n", "Took 2 s.") == once.replace("1 2", "3").replace(
        "Took 1", "Took 2"
    )
    assert questions.questions(once) == [question]


@pytest.mark.thorough
def test_a_question_asked_again_has_the_same_answer():
    """The one whose answer takes the least CPU."""
    question = next(question for question in ASKED if question.number == 13)
    for command, printed, took_s in questions.answers(question):
        assert f"```\n{command}\n\n{questions.shown(printed)}\n```\n" in PAGE
        assert took_s > 0


def test_a_page_without_a_place_gets_one_and_loses_nothing():
    words = "\nWhat it says.\n\n<!-- run -->\n<!-- end -->\n"
    page = questions.with_place(f"<!-- where -->\n<!-- end -->{words}", 60.0, 0.5)
    assert page.startswith("<!-- where -->\n\n| | |\n| --- | --- |\n| date |")
    assert page.partition("<!-- end -->")[2] == words
    assert questions.with_place(page, 60.0, 0.5) == page
