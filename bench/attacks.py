"""A node under attack: what each attack costs it, and what honest peers notice.

A real node in a process of its own; honest nodes in another, which hear each other through it alone; attackers in a
third, from other addresses of 127.0.0.0/8. Nothing leaves loopback, everything is bounded in bytes and time. Printed
as a table: memory at its highest above idle, CPU in the time of the attack, the longest delay of the event loop, the
share of honest messages that arrived and the 99th percentile of how long they took, and memory above idle a minute
after the attackers have gone.

    python bench/attacks.py [--only NAME,NAME] [--against PATH] [--go] [--after 60] [--all-at-once]

`--only` takes the beginnings of names. `--against` runs the node from another folder of sources, such as the `src` of
another version. `--go` attacks go-libp2p-pubsub with its defaults too, in the same run. `--all-at-once` has all
attackers at one node together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parent / "attack_tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))

from children import SOURCES, Child
from foreign_peers import Missing, command_of

TOOLS = Path(__file__).parent / "attack_tools"
SETTLE_S = 1.0
LATE_S = 3.0
"""So long honest messages may take after the attackers have gone, and count as delivered."""


@dataclass
class Outcome:
    """What was measured."""

    memory_mb: float = 0.0
    later_mb: float | None = None
    cpu_s: float = 0.0
    seconds: float = 0.0
    delay_s: float | None = None
    honest: list[dict] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    attackers: set[str] = field(default_factory=set)
    reports: list[dict] = field(default_factory=list)
    """Of the victim, one for each second of the attack and the last one."""
    error_bytes: int = 0
    met_s: float | None = None
    ended: str = ""

    @property
    def last(self) -> dict:
        return self.reports[-1] if self.reports else {}

    def members(self, report: dict) -> tuple[int, int]:
        """Attackers and others in the mesh."""
        mesh = set(report.get("mesh", ()))
        return len(mesh & self.attackers), len(mesh - self.attackers)


@dataclass(frozen=True)
class Attack:
    name: str
    limit: str
    """What docs/reference/security.md promises."""
    victim: tuple[str, ...] = ()
    go: tuple[str, ...] | None = ()
    """Flags of the Go victim; None where it has nothing to attack."""
    honest: tuple[str, ...] = ()
    seconds: float = 7.0
    seen: Callable[[Outcome], str] = lambda outcome: ""
    traced: bool = False
    sodium: bool = True
    """Whether the node finds PyNaCl."""

    @property
    def carried_out(self) -> str:
        """What the attackers call it; they know of no variants of the node."""
        return self.name.removesuffix("/openssl").removesuffix("/refused")


def _meshes(outcome: Outcome) -> str:
    seen = [outcome.members(report) for report in outcome.reports]
    if not seen:
        return ""
    return f"honest in the mesh: {seen[0][1]} before, {min(honest for _, honest in seen)} at worst"


def _stopped(outcome: Outcome) -> str:
    during = outcome.reports[:-1]
    inside = [place for place, report in enumerate(during) if outcome.members(report)[0]]
    if not inside:
        return "never in the mesh"
    if inside[-1] >= len(during) - 2:
        return f"{outcome.members(during[inside[-1]])[0]} still in the mesh after {len(during)} s"
    return f"out of the mesh after {inside[-1] + 1} s"


SLOW = ("--slow-validator", "1")
GO_SLOW = ("-slow-validator", "1s")
FORGETFUL = ("--seen-ttl-ms", "2000")

ATTACKS = (
    Attack("discovers-unread", "answers wait for their reader, within the stream's budget",
           ("--rendezvous-point",), None),
    Attack("discovers-unread/unfinished", "12 MiB a stream, 16 MiB a peer", ("--rendezvous-point",), None),
    Attack("long-topic-names", "bytes of names per peer"),
    Attack("dear-signatures/rsa-exponent", "exponent 65537 or refused"),
    Attack("dear-signatures/brainpool", "P-256 or refused"),
    Attack("dear-signatures/secp256k1", "off the loop, in turns"),
    Attack("dear-signatures/p521", "P-256 or refused"),
    Attack("dear-signatures/ed25519", "off the loop, in turns"),
    Attack("idle-sockets", "handshakes per address, the oldest gives way"),
    Attack("slow-validator-flood", "slots for each peer; time counts from the start", SLOW, GO_SLOW,
           ("--topic", "slow")),
    Attack("slow-validator-flood/four", "the same", SLOW, GO_SLOW, ("--topic", "slow")),
    Attack("tiny-rpcs", "a rate of RPCs and parts"),
    Attack("tiny-rpcs/malformed", "put out after a few"),
    Attack("poisoned-rendezvous", "shares for each registrant, dials spread", ("--rendezvous-point",), None,
           seconds=70,
           seen=lambda outcome: "not met" if outcome.met_s is None else f"met after {outcome.met_s:.1f} s"),
    Attack("names-in-unverified-messages", "only names of verified messages are kept", traced=True),
    Attack("stopped-peers", "out of the mesh within 30 s", seconds=45, seen=_stopped),
    Attack("same-data-two-topics", "ids are over topic and data", ("--plain",), None, ("--plain",)),
    Attack("bytes-kept/unread-streams", "16 MiB a peer, 32 an address"),
    Attack("bytes-kept/message-cache", "bytes of the cache"),
    Attack("bytes-kept/validations", "bytes of pending messages", SLOW, GO_SLOW, ("--topic", "slow")),
    Attack("bytes-kept/wanted", "answers within the queue"),
    Attack("bytes-kept/application", "bytes of the queue", ("--unread",), ("-unread",)),
    Attack("bytes-kept/unfinished-rpcs", "32 MiB an address"),
    Attack("grafting-sybils", "few places of a mesh for one address", seen=_meshes),
    Attack("replays", "none while the id is remembered", FORGETFUL, None, seconds=14,
           seen=lambda outcome: _again(outcome)),
    Attack("replays/refused", "not delivered again", (*FORGETFUL, "--refuse-replays"), None, seconds=14,
           seen=lambda outcome: _again(outcome)),
    Attack("unasked-records", "not looked at", (), None,
           seen=lambda outcome: f"{outcome.last.get('learnt', 0)} learnt"),
    Attack("small-order-keys", "refused, with and without libsodium", seen=lambda outcome: _forged(outcome)),
    Attack("small-order-keys/openssl", "the same", (), None,
           seen=lambda outcome: _forged(outcome), sodium=False),
    Attack("few-files", "connections fit the files", ("--files", "128"), (),
           seen=lambda outcome: f"{outcome.error_bytes:,} B of complaints on stderr"),
)  # fmt: skip


def _again(outcome: Outcome) -> str:
    sent = sum(counts.get("replayed", 0) for counts in outcome.counts.values())
    return f"{outcome.last.get('again', 0)} of {sent} delivered again"


def _forged(outcome: Outcome) -> str:
    sent = sum(counts.get("forged", 0) for counts in outcome.counts.values())
    return f"{outcome.last.get('forged', 0)} of {sent} forged messages delivered"


class Bench:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.sources = flags.against or SOURCES
        self.turn = asyncio.Lock()
        """One attack at a time; the minute after it may be another's."""

    async def ours(self, attack: Attack) -> Outcome:
        async with AsyncExitStack() as stack:
            flags = list(attack.victim)
            if attack.traced:
                folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
                flags += ["--trace", f"{folder}/trace"]
            path = (self.sources,) if attack.sodium else (TOOLS / "without_sodium", self.sources)
            victim = Child.python("victim.py", *flags, path=path)
            return await self.attack(attack.carried_out, victim, [attack.honest], attack.seconds)

    async def theirs(self, attack: Attack, command: list[str]) -> Outcome:
        victim = Child(*command, "-victim", *(attack.go or ()))
        return await self.attack(attack.carried_out, victim, [attack.honest], attack.seconds)

    async def attack(
        self, name: str, victim: Child, companies: list[tuple[str, ...]], seconds: float, *more: str
    ) -> Outcome:
        outcome = Outcome()
        async with AsyncExitStack() as stack:
            async with self.turn:
                async with AsyncExitStack() as honest_stack:
                    await stack.enter_async_context(victim)
                    listening = await victim.says("listening", 20)
                    if listening is None:
                        outcome.ended = "did not start: " + victim.errors.decode(errors="replace")[-300:]
                        return outcome
                    target = listening["address"]
                    honest = [Child.python("honest.py", target, *flags) for flags in companies]
                    for company in honest:
                        await stack.enter_async_context(company)
                    for company in honest:
                        if await company.says("ready", 60) is None:
                            outcome.ended = "honest nodes got no mesh " + company.errors.decode()[-300:]
                            return outcome
                    await asyncio.sleep(SETTLE_S)
                    idle_mb = victim.resident_mb
                    victim.forget_peak()
                    for company in honest:
                        company.order("publish")
                    parts = target.split("/")
                    attackers = Child.python(
                        "attackers.py", name, parts[2], parts[4], "--seconds", str(seconds), *more
                    )
                    begin, cpu_s = monotonic(), victim.cpu_s
                    await honest_stack.enter_async_context(attackers)
                    if name == "poisoned-rendezvous":
                        await attackers.says("set", 60)
                        seekers = Child.python("seekers.py", target, path=(self.sources,))
                        await honest_stack.enter_async_context(seekers)
                        met = await seekers.says("met", 80)
                        outcome.met_s = met["seconds"] if met else None
                    else:
                        done = await attackers.says("done", seconds + 20)
                        if done is None:
                            outcome.ended = "the attackers failed " + attackers.errors.decode()[-300:]
                        else:
                            outcome.counts, outcome.attackers = done["counts"], set(done["peers"])
                    end = monotonic()
                    outcome.cpu_s, outcome.seconds = victim.cpu_s - cpu_s, end - begin
                for company in honest:
                    company.order("stop")
                await asyncio.sleep(LATE_S)
                for company in honest:
                    company.order("report")
                for company in honest:
                    outcome.honest.append(await company.says("report", 20) or {})
                await victim.says("report", 20, since=monotonic())
                reports = [said for at, said in victim.events if said["event"] == "report" and at >= begin]
                outcome.reports = reports[: max(1, round(end - begin))] + reports[-1:]
                delays = [said["loop_delay_s"] for said in reports if "loop_delay_s" in said]
                outcome.delay_s = max(delays) if delays else None
                outcome.memory_mb = victim.peak_mb - idle_mb
                outcome.error_bytes = victim.error_bytes
                if victim.ended:
                    outcome.ended = "THE NODE ENDED: " + victim.errors.decode(errors="replace")[-300:]
            await asyncio.sleep(max(0.0, end + self.flags.after - monotonic()))
            outcome.later_mb = victim.resident_mb - idle_mb
        return outcome

    async def terminal(self) -> str:
        """What a terminal gets to see of messages with control characters."""
        ours, theirs = pty.openpty()
        said = bytearray()
        with suppress(OSError):
            os.set_blocking(ours, False)
        environment = {**os.environ, "PYTHONPATH": str(self.sources), "TERM": "xterm"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from hearsay.cli.main import main; main()", "node", "--subscribe", "news",
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment)  # fmt: skip
        os.close(theirs)

        async def until(found: Callable[[], bool], within_s: float) -> bool:
            end = monotonic() + within_s
            while not found() and monotonic() < end:
                with suppress(OSError):
                    said.extend(os.read(ours, 65536))
                await asyncio.sleep(0.05)
            return found()

        try:
            if not await until(lambda: b"/p2p/" in said and said.endswith(b"\n"), 20):
                return "did not start"
            await asyncio.sleep(0.3)
            address = next(word for word in said.decode().split() if "/p2p/" in word).split("/")
            async with Child.python("attackers.py", "terminal-control", address[2], address[4], "--seconds", "4"):
                if not await until(lambda: b"forged line" in said, 8):
                    return "no message was shown"
                await until(lambda: False, 1)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            os.close(ours)
        driven = b"\x1b]0;owned" in said or b"\x1b[2J" in said or b"\xc2\x9b" in said
        return "terminal driven" if driven else "shown escaped"


def delivered(outcome: Outcome) -> str:
    told: list[str] = []
    for company in outcome.honest:
        if not company.get("due"):
            told.append("?")
            continue
        share = 100 * company["arrived"] / company["due"]
        text = "100 %" if company["arrived"] == company["due"] else f"{min(share, 99.9):.1f} %"
        if company["dialled"] < company["dials"]:
            text += f", {company['dialled']} of {company['dials']} dials"
        if company["starved"]:
            text += f", {company['starved']} heard nothing"
        told.append(text)
    return "; ".join(told)


def taken(outcome: Outcome) -> str:
    """How much the attackers got rid of: figures of memory compare only beside it."""
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


async def each(flags: argparse.Namespace) -> None:
    bench = Bench(flags)
    wanted = tuple(flags.only.split(",")) if flags.only else ("",)
    go: list[str] | None = None
    if flags.go:
        try:
            go = command_of("go")
        except Missing as missing:
            print(f"NOT MEASURED: {missing}", file=sys.stderr)
    heads = HEAD + (GO_HEAD if go else ())
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)

    async def measured(attack: Attack) -> str:
        both = [bench.ours(attack)]
        if go and attack.go is not None:
            both.append(bench.theirs(attack, go))
        ours, *others = await asyncio.gather(*both)
        theirs = others[0] if others else None
        seen = [", ".join(filter(None, (attack.seen(one), taken(one)))) for one in (ours, *others)]
        text = row(attack.name, attack.limit, ours, seen[0], theirs, seen[-1])
        if go and theirs is None:
            text += " |" * len(GO_HEAD)
        counted = " and ".join(str(outcome.counts.get(attack.carried_out, {})) for outcome in (ours, *others))
        print(f"{attack.name}: {counted}", file=sys.stderr, flush=True)
        return text

    running = [asyncio.ensure_future(measured(attack)) for attack in ATTACKS if attack.name.startswith(wanted)]
    for task in running:
        print(await task, flush=True)
    if "terminal-control".startswith(wanted) or any(name.startswith("terminal") for name in wanted):
        cells = ["`terminal-control`", "a message a line, escaped", *[""] * 6, await bench.terminal()]
        print("| " + " | ".join(cells + [""] * (len(heads) - len(cells))) + " |", flush=True)


async def all_at_once(flags: argparse.Namespace) -> None:
    """Two companies of honest nodes, one in an attacked topic with a slow validator, whose second is its own."""
    bench = Bench(flags)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        victim = Child.python(
            "victim.py", "--rendezvous-point", *SLOW, "--unread", "--plain", "--trace", f"{folder}/trace",
            path=(bench.sources,))  # fmt: skip
        companies = [(), ("--topic", "slow", "--rate", "1"), ("--plain", "--rate", "1", "--nodes", "3")]
        left_out = ("--without", flags.without) if flags.without else ()
        outcome = await bench.attack("all", victim, companies, flags.seconds, *left_out)
    print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD))
    limit = "300 MB; 1 s; nothing lost; +20 MB a minute later"
    print(row("all at once", limit, outcome, _meshes(outcome), None, ""), flush=True)
    print("\nHonest messages: in `news`; in `slow`, whose validator takes 1 s; in two unsigned topics.\n")
    for name, counts in outcome.counts.items():
        print(f"    {name}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names or their beginnings, separated by commas")
    parser.add_argument("--against", type=Path, help="the node runs from this folder of sources")
    parser.add_argument("--go", action="store_true", help="attack go-libp2p-pubsub too")
    parser.add_argument("--after", type=float, default=60, help="seconds until memory is looked at again")
    parser.add_argument("--all-at-once", action="store_true")
    parser.add_argument("--seconds", type=float, default=20, help="of all at once")
    parser.add_argument("--without", default="", help="of all at once: not these")
    flags = parser.parse_args()
    asyncio.run(all_at_once(flags) if flags.all_at_once else each(flags))


if __name__ == "__main__":
    main()
