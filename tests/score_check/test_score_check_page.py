"""The example of the guide is the output of the command."""

from __future__ import annotations

import re
from pathlib import Path

from hearsay.score_check.check import check_subject, finding_line, summary
from hearsay.score_check.subjects import read_subject

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "score-check.md").read_text(encoding="utf-8")


def test_the_example_of_the_guide_has_the_findings_that_it_shows(tmp_path):
    text = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    path = tmp_path / "score.toml"
    path.write_text(text, encoding="utf-8")
    found = check_subject(read_subject(path))
    lines = [*(finding_line("score.toml", each) for each in found.findings), summary(found)]
    shown = re.search(r"<!-- said -->\n```\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert shown[1] == "\n".join(lines).replace(f"{tmp_path}/", "") + "\n"
