"""What each version of the mesh's protocol added: nobody is told what its version does not know.

The mesh itself is 1.0; a PRUNE's backoff and the peers it names are 1.1; IDONTWANT is 1.2;
the extensions control, and all that hangs on it, 1.3.
"""

from __future__ import annotations

from hearsay.core.language.rpc import MESHSUB, MESHSUB_11, MESHSUB_12, MESHSUB_13

VERSIONS = (MESHSUB, MESHSUB_11, MESHSUB_12, MESHSUB_13)
"""The oldest first."""

_WITH_BACKOFF = frozenset(VERSIONS[1:])
_WITH_IDONTWANT = frozenset(VERSIONS[2:])


def spoken(*, backoff: bool, idontwant: bool, extensions: bool) -> tuple[str, ...]:
    """The versions of a router that knows this much, the newest first."""
    newest = 3 if extensions else 2 if idontwant else 1 if backoff else 0
    return VERSIONS[newest::-1]


def knows_backoff(protocol: str) -> bool:
    """Whether a PRUNE may carry a time and other peers."""
    return protocol in _WITH_BACKOFF


def knows_idontwant(protocol: str) -> bool:
    return protocol in _WITH_IDONTWANT


def knows_extensions(protocol: str) -> bool:
    """Whether a peer may say, and be told, what it can do beyond its version."""
    return protocol == MESHSUB_13
