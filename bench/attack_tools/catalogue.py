"""The attacks of `bench/attacks.py`, each with flags of the victim and of its honest peers, and a result to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outcome import Outcome


@dataclass(frozen=True)
class Attack:
    name: str
    limit: str
    """The limit that docs/reference/security.md states, in a few words."""
    victim: tuple[str, ...] = ()
    go: tuple[str, ...] | None = ()
    """Flags of the Go victim; None if the attack does not apply to Go."""
    honest: tuple[str, ...] = ()
    seconds: float = 7.0
    seen: Callable[[Outcome], str] = lambda outcome: ""
    traced: bool = False
    sodium: bool = True
    """True if PyNaCl is installed for the victim."""

    @property
    def carried_out(self) -> str:
        """The name of the attack in `attackers.py`, without the suffix for a variant of the victim."""
        return self.name.removesuffix("/openssl").removesuffix("/refused")


def meshes(outcome: Outcome) -> str:
    seen = [outcome.members(report) for report in outcome.reports]
    if not seen:
        return ""
    return f"honest in the mesh: {seen[0][1]} before, {min(honest for _, honest in seen)} at worst"


def _time_in_mesh(outcome: Outcome) -> str:
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
WITH_GO = ("--go", "2")

ATTACKS = (
    Attack("discovers-unread", "answers wait for their reader, within the stream's budget",
           ("--rendezvous-point",), None),
    Attack("discovers-unread/unfinished", "12 MiB a stream, 16 MiB a peer", ("--rendezvous-point",), None),
    Attack("long-topic-names", "bytes of names per peer"),
    Attack("expensive-signatures/rsa-exponent", "exponent 65537 or refused"),
    Attack("expensive-signatures/brainpool", "P-256 or refused"),
    Attack("expensive-signatures/secp256k1", "off the loop, in turns"),
    Attack("expensive-signatures/p521", "P-256 or refused"),
    Attack("expensive-signatures/ed25519", "off the loop, in turns"),
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
    Attack("stopped-peers", "out of the mesh within 30 s", seconds=45, seen=_time_in_mesh),
    Attack("same-data-two-topics", "ids are over topic and data", ("--plain",), None, ("--plain",)),
    Attack("bytes-kept/unread-streams", "16 MiB a peer, 32 an address"),
    Attack("bytes-kept/message-cache", "bytes of the cache"),
    Attack("bytes-kept/validations", "bytes of pending messages", SLOW, GO_SLOW, ("--topic", "slow")),
    Attack("bytes-kept/wanted", "answers within the queue"),
    Attack("bytes-kept/application", "bytes of the queue", ("--unread",), ("-unread",)),
    Attack("bytes-kept/unfinished-rpcs", "32 MiB an address"),
    Attack("grafting-sybils", "few places of a mesh for one address", seen=meshes),
    Attack("replays", "none while the id is remembered", FORGETFUL, None, seconds=14,
           seen=lambda outcome: _redeliveries(outcome)),
    Attack("replays/refused", "not delivered again", (*FORGETFUL, "--refuse-replays"), None, seconds=14,
           seen=lambda outcome: _redeliveries(outcome)),
    Attack("unasked-records", "not looked at", (), None,
           seen=lambda outcome: f"{outcome.last.get('learnt', 0)} learnt"),
    Attack("small-order-keys", "refused, with and without libsodium", seen=lambda outcome: _forged(outcome)),
    Attack("small-order-keys/openssl", "the same", (), None,
           seen=lambda outcome: _forged(outcome), sodium=False),
    Attack("few-files", "connections fit the files", ("--files", "128"), (),
           seen=lambda outcome: f"{outcome.error_bytes:,} B of complaints on stderr"),
    Attack("disputed-messages", "nothing that others relay costs a relay", honest=WITH_GO, seconds=15,
           seen=meshes),
    Attack("idle-connections", "useful peers stay, newcomers keep a quarter", seconds=30, seen=meshes),
    Attack("tiny-frames/one-byte", "a rate of small frames, in turns"),
    Attack("tiny-frames/empty", "the same"),
    Attack("exchange-floods", "dials of an address have a rate", ("--accept-exchange",), None, seconds=20,
           seen=lambda outcome: _dials(outcome)),
    Attack("equivocations", "no blame for another message with the same id", ("--rejects",), None, WITH_GO,
           seen=meshes),
    Attack("partial-groups", "255 groups in a topic, 8 of a peer", ("--parts",), None,
           seen=lambda outcome: _groups(outcome)),
    Attack("partial-groups/right", "the same", ("--parts",), None, seen=lambda outcome: _groups(outcome)),
)  # fmt: skip


def _redeliveries(outcome: Outcome) -> str:
    sent = sum(counts.get("replayed", 0) for counts in outcome.counts.values())
    return f"{outcome.last.get('again', 0)} of {sent} delivered again"


def _dials(outcome: Outcome) -> str:
    counts = outcome.counts.get("exchange-floods", {})
    return f"{counts.get('dials', 0)} dials of an address, {counts.get('dials in a second', 0)} in a second at most"


def _groups(outcome: Outcome) -> str:
    return f"{max(report['groups'] for report in outcome.reports)} groups kept at most"


def _forged(outcome: Outcome) -> str:
    sent = sum(counts.get("forged", 0) for counts in outcome.counts.values())
    return f"{outcome.last.get('forged', 0)} of {sent} forged messages delivered"
