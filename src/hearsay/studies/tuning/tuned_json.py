"""What came of a tuning, as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hearsay.studies.tuning.answer import FOLDER, Answer
from hearsay.studies.tuning.answer_files import BUDGETS
from hearsay.studies.tuning.tune import Tuned
from hearsay.studies.tuning.tune_text import best_words
from hearsay.text.numbers import plain


def tuned_json(tuned: Tuned, answers: Sequence[Answer], folder: Path) -> dict[str, Any]:
    found = any(answer.best is not None for answer in answers)
    return {
        "tuning": tuned.tuning.name,
        "folder": str(folder),
        "runs": sum(found.runs + found.final_runs for found in tuned.searches),
        "made": tuned.made,
        "failed": len(tuned.failures),
        "budgets": str(folder / BUDGETS) if found else None,
        "answers": [_answer_json(answer, folder) for answer in answers],
    }


def _answer_json(answer: Answer, folder: Path) -> dict[str, Any]:
    searched, best = answer.searched, answer.best
    said: dict[str, Any] = {
        "condition": answer.condition,
        "points": len(searched.tried),
        "runs": searched.runs,
        "final_runs": searched.final_runs,
        "words": plain(best_words(answer)),
        "matters": answer.matters,
        "best": None,
    }
    if best is None:
        return said
    said["best"] = searched.settings(best)
    said["scenario"] = str(folder / FOLDER / answer.file("best"))
    said["compare"] = answer.compare_command(folder)
    said["as_good"] = [searched.settings(each) for each in answer.as_good]
    said["figures"] = [
        {
            "figure": line.figure.name,
            "verdict": str(line.verdict),
            **asdict(mean),
            "difference": None if line.difference is None else asdict(line.difference),
        }
        for line, mean in zip(answer.lines, answer.means(), strict=True)
    ]
    return said
