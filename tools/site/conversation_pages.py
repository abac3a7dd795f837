"""Conversations of tests/interaction as Markdown: a page for each, and an index by router and by rule."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

CONVERSATIONS = Path(__file__).resolve().parents[2] / "tests" / "interaction"
_RULE = re.compile(r"\b[A-Z]{3,}-\d+\b")
_ABOUT = """# Conversations

Every rule of a router as a story: commands to real routers, and what they answer. The tests play them and compare
every line. A line with `>` is a command; `a -> b:` goes over a link; the others say what a router did.
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
        """The comment at the top: the rule in words."""
        words: list[str] = []
        for line in self.lines:
            if not line.startswith("#"):
                break
            words.append(line.removeprefix("#").strip())
        return " ".join(words)

    @property
    def router(self) -> str:
        """Of the first node."""
        nodes = [line.split() for line in self.lines if line.startswith("> node ")]
        return nodes[0][3] if nodes and len(nodes[0]) > 3 else "gossipsub"

    @property
    def rules(self) -> list[str]:
        """The ids of rules that are cited."""
        return sorted(set(_RULE.findall("\n".join(self.lines))))

    def page(self) -> str:
        """Comments as prose, and what is said and answered between them."""
        parts = [f"# {self.title}"]
        prose: list[str] = []
        said: list[str] = []
        for line in (*self.lines, "#"):
            if not line.startswith("#"):
                if prose:
                    parts.append(_plain(" ".join(prose)))
                    prose = []
                said.append(line)
                continue
            if any(said):
                parts.append(_shown(said))
            said = []
            prose.append(line.removeprefix("#").strip())
        return "\n\n".join(part for part in parts if part) + f"\n\n`tests/interaction/{self.name}.txt`\n"


def _plain(text: str) -> str:
    """Text in which nothing is Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>|$])", r"\\\1", text.strip())


def _shown(lines: list[str]) -> str:
    """What was said, as HTML without an empty line, which would end it."""
    rows = []
    for line in "\n".join(lines).strip("\n").split("\n"):
        kind = "command" if line.startswith("> ") else "sent" if " -> " in line else "done"
        rows.append(f'<span class="{kind}">{html.escape(line) or "&#8203;"}</span>')
    return '<pre class="conversation">' + "\n".join(rows) + "</pre>"


def conversations() -> list[Conversation]:
    paths = sorted(CONVERSATIONS.glob("*.txt"))
    return [Conversation(path.stem, tuple(path.read_text(encoding="utf-8").splitlines())) for path in paths]


def index(all_of_them: list[Conversation]) -> str:
    parts = [_ABOUT]
    by_rule = {rule: [] for conversation in all_of_them for rule in conversation.rules}
    for conversation in all_of_them:
        for rule in conversation.rules:
            by_rule[rule].append(f"[{conversation.title}]({conversation.name}.md)")
    if by_rule:
        rows = [f"| {rule} | {', '.join(links)} |" for rule, links in sorted(by_rule.items(), key=_numbered)]
        parts.append("## By rule\n\n| rule | conversations |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    for router in dict.fromkeys(conversation.router for conversation in all_of_them):
        rows = [
            f"| [{each.title}]({each.name}.md) | {_plain(each.opening)} |"
            for each in all_of_them
            if each.router == router
        ]
        parts.append(f"## {router}\n\n| conversation | what it tells |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    hidden = "\n".join(each.name for each in all_of_them)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{hidden}\n```\n")
    return "\n".join(parts)


def _numbered(item: tuple[str, list[str]]) -> tuple[str, int]:
    room, _, number = item[0].rpartition("-")
    return room, int(number)
