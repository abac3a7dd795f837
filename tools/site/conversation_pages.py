"""Conversations of tests/interaction as Markdown: a page for each, an index, and the rules that they show."""

from __future__ import annotations

import ast
import html
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONVERSATIONS = ROOT / "tests" / "interaction"
CORE = ROOT / "src" / "hearsay" / "core"
_CITED = re.compile(r"^# Rules: (.*)$", re.MULTILINE)
_ID = re.compile(r"[A-Z]+-\d+")
_DEFINITION = re.compile(rf"^\* ({_ID.pattern})[:,] (.*(?:\n  .*)*)", re.MULTILINE)
_ABOUT = """# Conversations

Each conversation shows rules of a router: commands to real routers, and their answers. Tests play the commands and
compare every line. A line with `>` is a command, a line with `a -> b:` is an RPC, other lines are actions of routers.
"""


@dataclass(frozen=True)
class Conversation:
    name: str
    lines: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.name.partition("-")[2].replace("-", " ").capitalize()

    @property
    def opening(self) -> str:
        """The comment at the top, which states the rule in words."""
        words: list[str] = []
        for line in self.lines:
            if not line.startswith("#") or _CITED.match(line):
                break
            words.append(line.removeprefix("#").strip())
        return " ".join(words)

    @property
    def router(self) -> str:
        """The router of the first node."""
        nodes = [line.split() for line in self.lines if line.startswith("> node ")]
        return nodes[0][3] if nodes and len(nodes[0]) > 3 else "gossipsub"

    @property
    def rules(self) -> list[str]:
        """The ids of the rules that the conversation cites."""
        return [rule for cited in _CITED.findall("\n".join(self.lines)) for rule in _ID.findall(cited)]

    def page(self) -> str:
        """Return the page: comments become paragraphs, and the lines between two comments become a block."""
        parts = [f"# {self.title}", self._rules_shown()]
        prose: list[str] = []
        block: list[str] = []
        for line in (*(line for line in self.lines if not _CITED.match(line)), "#"):
            if not line.startswith("#"):
                if prose:
                    parts.append(_escaped(" ".join(prose)))
                    prose = []
                block.append(line)
                continue
            if any(block):
                parts.append(_html(block))
            block = []
            prose.append(line.removeprefix("#").strip())
        return "\n\n".join(part for part in parts if part) + f"\n\n`tests/interaction/{self.name}.txt`\n"

    def _rules_shown(self) -> str:
        links = [f'<a href="rules.html#{rule.lower()}">{rule}</a>' for rule in self.rules]
        return f"Shows {', '.join(links)}." if links else ""


def _escaped(text: str) -> str:
    """Return a text with its Markdown escaped, except code between backticks."""
    pieces = re.split(r"(`[^`]+`)", text.strip())
    return "".join(piece if piece[:1] == "`" else re.sub(r"([\\`*_{}\[\]<>|$])", r"\\\1", piece) for piece in pieces)


def _html(lines: list[str]) -> str:
    """Return lines of a conversation as HTML. Empty lines get a space, because they would end HTML in Markdown."""
    rows = []
    for line in "\n".join(lines).strip("\n").split("\n"):
        kind = "command" if line.startswith("> ") else "sent" if " -> " in line else "done"
        rows.append(f'<span class="{kind}">{html.escape(line) or "&#8203;"}</span>')
    return '<pre class="conversation">' + "\n".join(rows) + "</pre>"


def conversations() -> list[Conversation]:
    paths = sorted(CONVERSATIONS.glob("*.txt"))
    return [Conversation(path.stem, tuple(path.read_text(encoding="utf-8").splitlines())) for path in paths]


def index(all_conversations: list[Conversation]) -> str:
    parts = [_ABOUT]
    for router in dict.fromkeys(conversation.router for conversation in all_conversations):
        rows = [
            f"| [{each.title}]({each.name}.md) | {_escaped(each.opening)} |"
            for each in all_conversations
            if each.router == router
        ]
        parts.append(f"## {router}\n\n| conversation | rule |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    hidden = "\n".join(each.name for each in all_conversations)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{hidden}\n```\n")
    return "\n".join(parts)


def rules_page(all_conversations: list[Conversation]) -> str:
    """Return the page of rules: their texts from the docstrings of `core`, by file, each with its conversations."""
    parts = ["# Rules\n\nFrom the docstrings of the routers, each with the conversations that show it.\n"]
    for path in sorted(CORE.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        rows = []
        for rule, text in _DEFINITION.findall(docstring):
            shown = ", ".join(f"[{each.title}]({each.name}.md)" for each in all_conversations if rule in each.rules)
            rows.append(f'| <span id="{rule.lower()}">{rule}</span> | {_escaped(" ".join(text.split()))} | {shown} |')
        if rows:
            about = _escaped(" ".join(docstring.partition("\n\n")[0].split()))
            name = path.relative_to(CORE).as_posix()
            head = "| rule | | shown by |\n| --- | --- | --- |"
            parts.append(f"## {name}\n\n{about}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)
