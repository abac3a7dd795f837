"""`hearsay.explain_message` answers as `hearsay explain` does; notebooks show the answer as a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import hearsay as command

import hearsay

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("explained") / "run"
    lossy = {"network.nodes": 30, "workload.messages": 4, "workload.interval_s": 0.5, "loss.rate": 0.7, "linger_s": 3}
    hearsay.simulate("r1", lossy, out=folder)
    return folder


def test_each_question_is_answered_as_the_command_answers_it(run):
    missing = hearsay.explain_message(run, 2, missing=True).to_json()["missing"]
    asked = [({}, ()), ({"missing": True}, ("--missing",)), ({"node": 7}, ("--node", "7"))]
    asked += [({"node": each["node"]}, ("--node", each["node"])) for each in missing[:2]]
    for options, words in asked:
        explained = hearsay.explain_message(hearsay.open_run(run), 2, **options)
        done = command("explain", run, "--message", 2, *words)
        assert f"{explained}\n" == done.stdout
        assert explained.to_json() == json.loads(command("explain", run, "--message", 2, *words, "--json").stdout)
        shown = explained._repr_html_()
        assert shown.startswith("<table><caption>message 2 of topic topic")
        assert shown.count("<table") == shown.count("</table>") == 1


def test_an_unknown_message_or_node_is_reported_in_a_line(run, tmp_path):
    with pytest.raises(ValueError, match=r"^99: no such message in .*; the nearest is 3$"):
        hearsay.explain_message(run, 99)
    with pytest.raises(ValueError, match=r"^77: no such node in "):
        hearsay.explain_message(run, 2, node=77)
    with pytest.raises(ValueError, match="give one"):
        hearsay.explain_message(run, 2, node=7, missing=True)
    with pytest.raises(hearsay.RunFolderError, match=str(tmp_path)):
        hearsay.explain_message(tmp_path, 2)
