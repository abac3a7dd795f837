"""A browser that sends events but no answer ends in an error that says so."""

from __future__ import annotations

from contextlib import closing

import pytest

import chromium


@pytest.mark.parametrize(
    "asked", [lambda browser: browser.call("Page.enable"), lambda browser: browser.wait_for("Page.load")]
)
def test_events_without_an_answer_end_in_an_error(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(chromium, "PATIENCE_S", 0.1)
    program = tmp_path / "events"
    program.write_text('#!/bin/sh\nwhile printf \'{"method":"Network.dataReceived"}\\0\' >&4; do :; done\n')
    program.chmod(0o755)
    with (
        closing(chromium.Browser(str(program), tmp_path / "profile")) as browser,
        pytest.raises(AssertionError, match="no answer"),
    ):
        asked(browser)
