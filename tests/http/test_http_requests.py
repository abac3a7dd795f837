"""Parsing of HTTP requests: independent of how bytes are cut, refused with a status, and bounded in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.http_server import HEAD_BYTES, BadRequest, Request, RequestReader

MOST_BYTES = 40


def read(*pieces, most=MOST_BYTES):
    """Return the request that these bytes make, the status of its refusal, or None if it is incomplete."""
    reader = RequestReader(most)
    try:
        for piece in pieces:
            if (found := reader.feed(piece)) is not None:
                return found
    except BadRequest as refused:
        return refused.status
    return None


NAMES = st.text("abcXYZ-09", min_size=1, max_size=8)
VALUES = st.text("abc,; =/é", max_size=12)
PATHS = st.text("abc/.%-", max_size=12).map(lambda rest: f"/{rest}")
FRAGMENTS = (st.just(b"GET /"), st.sampled_from([b" ", b"\r\n", b"\r\n\r\n", b"HTTP/1.1", b":", b"Host: x", b"?"]))
NEARLY = st.lists(st.one_of(*FRAGMENTS, st.binary(max_size=12)), max_size=20).map(b"".join)


@given(
    PATHS, st.lists(st.tuples(NAMES, VALUES), max_size=6), st.binary(max_size=MOST_BYTES), st.lists(st.integers(1, 9))
)
def test_a_request_is_what_was_sent_however_it_comes(path, headers, body, cuts):
    once = {name.lower(): (name, value) for name, value in headers if name.lower() != "content-length"}
    lines = [f"POST {path}?query HTTP/1.1", *(f"{name}:  {value}\t" for name, value in once.values())]
    sent = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body
    expected = {name: value.strip(" \t") for name, (_, value) in once.items()} | {"content-length": str(len(body))}
    pieces, rest = [], sent
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert read(*pieces, rest) == Request("POST", path, expected, body)
    assert read(sent[:-1]) is None or not body


@given(NEARLY, st.integers(0, 200))
def test_any_bytes_are_a_request_a_refusal_or_incomplete_wherever_they_are_cut(sent, cut):
    whole = read(sent)
    assert read(sent[:cut], sent[cut:]) == whole
    assert isinstance(whole, Request | None) or whole in (400, 411, 413)


def test_a_head_has_a_bound_to_the_byte_wherever_it_is_cut():
    begun = b"GET / HTTP/1.1\r\nX: "
    just = begun + b"x" * (HEAD_BYTES - len(begun))
    assert isinstance(read(just + b"\r\n\r\n"), Request)
    assert isinstance(read(just, *(bytes([each]) for each in b"\r\n\r\n")), Request)
    assert read(just + b"x\r\n\r\n") == 431
    assert read(just + b"x\r\n", b"\r\n") == 431
    assert read(just + b"xxxx") == 431


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", 400),
        (b"GET / HTTP/2", 400),
        (b"GET  / HTTP/1.1", 400),
        (b" / HTTP/1.1", 400),
        (b"GET http://x/ HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b", 400),
        (b"GET / HTTP/1.1\r\nHost : a", 400),
        (b"GET / HTTP/1.1\r\n folded", 400),
        (b"GET / HTTP/1.1\r\n: a", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -5", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: \xb2", 411),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 41", 413),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"0" * 5000, 413),
    ],
)
def test_what_is_no_request_has_its_status(head, status):
    assert read(head + b"\r\n\r\n") == status


def test_values_of_one_name_are_joined_and_bodies_may_be_left_unread():
    sent = b"GET /a HTTP/1.0\r\nAccept: one\r\nACCEPT: two\r\nContent-Length: 9\r\n\r\nbody"
    assert read(sent, most=None) == Request("GET", "/a", {"accept": "one, two", "content-length": "9"})
