"""Each script of this folder shows what its routers do. `RENEW=1 pytest tests/interaction` records it again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conversation import Conversation

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def play(script: str) -> str:
    """Return the script with the actions that its commands cause now."""
    conversation = Conversation()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("> "):
            lines += [line, *conversation.play(line.removeprefix("> "))]
        elif line.startswith("#") or not line.strip():
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_there_are_scripts():
    assert len(SCRIPTS) > 20


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_conversation(path: Path):
    script = path.read_text(encoding="utf-8")
    played = play(script)
    if os.environ.get("RENEW"):
        path.write_text(played, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == played


def test_quiet_commands_are_executed_and_not_shown():
    loud = "> node A floodsub\n> hand B floodsub\n> connect A B\n"
    join = "> join A news\nA -> B: SUBSCRIBE news\n"
    assert play(loud + join) == f"{loud}(nothing)\n{join}"
    assert play(f"> quiet\n{loud}> loud\n{join}") == f"> quiet\n{loud}> loud\n{join}"
