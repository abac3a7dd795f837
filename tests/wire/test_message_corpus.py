"""Hearsay's verdict on each message of the corpus, compared with the recorded verdicts of go, rust and js.

`interop/test_message_verdicts.py` records them.
"""

from __future__ import annotations

import pytest
from message_corpus import Case, corpus
from message_faults import fault_of
from message_verdicts import ACCEPTED, LANGUAGES, digest, read_lines, read_verdicts

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import Message
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_message
from hearsay.wire.fields import RpcLimits, WireError
from hearsay.wire.messages import by_author
from hearsay.wire.signing import SignaturePolicy


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return corpus()


def decoded(case: Case) -> Message | None:
    """Return the last message of the RPC; None if there is none."""
    messages = decode_rpc(case.rpc, by_author, RpcLimits()).rpc.messages
    return messages[-1] if messages else None


def reason(case: Case) -> Reason | None:
    """Return the reason of a refusal, or None. An unreadable message is left out without blame; an unreadable RPC is
    an offence."""
    try:
        message = decoded(case)
    except WireError:
        return Reason.BAD_SIGNATURE
    if message is None:
        return Reason.UNSUPPORTED
    fault = fault_of(message, SignaturePolicy.STRICT_NO_SIGN if case.unsigned else SignaturePolicy.STRICT_SIGN)
    return None if fault is None else fault.reason


def test_the_corpus_is_the_one_with_recorded_verdicts(cases):
    assert [(digest(case), case.name) for case in cases] == [(known, name) for known, _, name in read_lines()]
    assert len(cases) >= 200


def test_messages_accepted_here_are_accepted_by_all(cases):
    """Only relayed bytes count: neither other fields of the RPC, nor unknown fields of unsigned messages."""
    verdicts = read_verdicts()
    for case in cases:
        if case.before or case.after or reason(case) is not None:
            continue
        if not case.unsigned or encode_message(decoded(case)) == case.message:
            assert (case.name, [verdicts[name][case.name] for name in LANGUAGES]) == (case.name, [ACCEPTED] * 3)


REFUSED_ON_PURPOSE = (
    "the id of the key",  # a key in a form that all implementations read and none writes
    "ed25519, a key",  # of small order, or in a second encoding
    "ed25519, R of small order",
    "rsa with exponent",  # above 65537: work grows with it
)


def test_messages_accepted_by_all_are_accepted_here(cases):
    verdicts = read_verdicts()
    refused = [
        case.name
        for case in cases
        if reason(case) is not None and all(verdicts[name][case.name] == ACCEPTED for name in LANGUAGES)
    ]
    assert [name for name in refused if not any(part in name for part in REFUSED_ON_PURPOSE)] == []


def test_blamed_messages_are_accepted_by_none(cases):
    """Cases with other fields of the RPC are compared with go and rust only: js reads some that they cannot read, and
    writes none of them."""
    verdicts = read_verdicts()
    taken = [
        (case.name, name)
        for case in cases
        if reason(case) is Reason.BAD_SIGNATURE
        for name in (LANGUAGES[:2] if case.before or case.after else LANGUAGES)
        if verdicts[name][case.name] == ACCEPTED
    ]
    assert taken == []
