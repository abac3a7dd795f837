"""The measurements of an attack, and its row in the table."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearsay.libp2p.names.multiaddr import Multiaddr


@dataclass
class Outcome:
    """The measurements of an attack. Memory is in MB above idle."""

    memory_mb: float = 0.0
    later_mb: float | None = None
    cpu_s: float = 0.0
    seconds: float = 0.0
    delay_s: float | None = None
    honest: list[dict] = field(default_factory=list)
    """The report of each process of honest nodes."""
    honest_cpu_s: list[float] = field(default_factory=list)
    attackers_cpu_s: float = 0.0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    attackers: set[str] = field(default_factory=set)
    relays: set[str] = field(default_factory=set)
    """Peer ids of the honest peers, in hexadecimal."""
    reports: list[dict] = field(default_factory=list)
    """Reports of the victim, one for each second of the attack, and the last."""
    error_bytes: int = 0
    met_s: float | None = None
    ended: str = ""

    @property
    def last(self) -> dict:
        return self.reports[-1] if self.reports else {}

    @property
    def kept_out(self) -> list[str]:
        """Reasons for which the victim keeps honest peers out."""
        return [why for peer, why in self.last.get("kept_out", ()) if peer in self.relays]

    def members(self, report: dict) -> tuple[int, int]:
        """Return the numbers of attackers and of other peers in the mesh of `news`."""
        mesh = set(report.get("mesh", ()))
        return len(mesh & self.attackers), len(mesh - self.attackers)


def peer_of(address: str) -> str:
    peer = Multiaddr.parse(address).peer
    assert peer is not None
    return peer.hex()


def delivered(outcome: Outcome) -> str:
    parts: list[str] = []
    for company in outcome.honest:
        if not company.get("due"):
            parts.append("?")
            continue
        share = 100 * company["arrived"] / company["due"]
        text = "100 %" if company["arrived"] == company["due"] else f"{min(share, 99.9):.1f} %"
        if company["dialled"] < company["dials"]:
            text += f", {company['dialled']} of {company['dials']} dials"
        if company["starved"]:
            text += f", {company['starved']} received nothing"
        parts.append(text)
    parts += [f"AN HONEST PEER IS KEPT OUT: {why}" for why in outcome.kept_out]
    return "; ".join(parts)


def taken(outcome: Outcome) -> str:
    """Return the amount that the attackers could send. Memory can be compared only for equal amounts."""
    counts = next(iter(outcome.counts.values()), {}) if len(outcome.counts) == 1 else {}
    return ", ".join(f"{counts[what]:,} {what} sent" for what in ("MiB", "kB", "names", "streams") if what in counts)


def slowest(outcome: Outcome) -> str:
    return "; ".join(milliseconds(company.get("p99_s")) for company in outcome.honest)


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def row(name: str, limit: str, outcome: Outcome, seen: str, go: Outcome | None, go_seen: str) -> str:
    cells = [f"`{name}`", limit, f"{outcome.memory_mb:+.0f} MB", f"{outcome.cpu_s:.1f} s of {outcome.seconds:.0f}",
             milliseconds(outcome.delay_s), delivered(outcome), slowest(outcome),
             "" if outcome.later_mb is None else f"{outcome.later_mb:+.0f} MB",
             outcome.ended.replace("\n", " ").replace("|", "/") or seen]  # fmt: skip
    if go is not None:
        cells += [f"{go.memory_mb:+.0f} MB", f"{go.cpu_s:.1f} s", delivered(go), slowest(go),
                  go.ended.replace("\n", " ").replace("|", "/") or go_seen]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


HEAD = ("attack", "stated limit", "memory above idle", "CPU", "longest loop delay", "honest delivered", "p99",
        "a minute later", "seen")  # fmt: skip
GO_HEAD = ("Go: memory", "CPU", "honest delivered", "p99", "seen")


def print_processes(outcome: Outcome) -> None:
    """Print CPU time and delay of the event loop for each process; a late honest process delays its own messages."""
    print(f"    node: {outcome.cpu_s:.0f} s of CPU, {milliseconds(outcome.delay_s)} late at most")
    print(f"    attackers: {outcome.attackers_cpu_s:.0f} s of CPU")
    for place, (company, cpu_s) in enumerate(zip(outcome.honest, outcome.honest_cpu_s, strict=False)):
        late, most = (milliseconds(company.get(name)) for name in ("late_p99_s", "late_max_s"))
        times = ", ".join(f"{name} {milliseconds(company.get(f'{name}_s'))}" for name in ("p50", "p99", "max"))
        refused = ", ".join(f"{count} {why}" for why, count in company.get("refusals", {}).items()) or "none"
        print(f"    honest {place}: {cpu_s:.0f} s of CPU, late {late} (p99), {most} (max); messages {times}; "
              f"{company.get('arrived')} of {company.get('due')}; "
              f"{company.get('dialled')} of {company.get('dials')} dials, refused: {refused}")  # fmt: skip
    print()
