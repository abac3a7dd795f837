"""All checks of a received message in one call. A node makes these checks in two steps."""

from __future__ import annotations

from hearsay.core.language.rpc import Message
from hearsay.wire.signing import Fault, SignaturePolicy, plain_fault, signature_fault


def fault_of(message: Message, policy: SignaturePolicy) -> Fault | None:
    """Return the fault of a message under a policy; None if it is valid."""
    fault = plain_fault(message, policy)
    return signature_fault(message) if fault is None and message.signature is not None else fault
