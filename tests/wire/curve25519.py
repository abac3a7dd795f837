"""The parts of Ed25519 with which a test signs with points of any order."""

from __future__ import annotations

from hashlib import sha512

from signers import number_from

P = (1 << 255) - 19
L = (1 << 252) + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
BASE = (15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, P) % P)
OF_ORDER_8 = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"


def add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    x, y = (x1 * y2 + x2 * y1) * pow(1 + t, -1, P), (y1 * y2 + x1 * x2) * pow(1 - t, -1, P)
    return x % P, y % P


def times(scalar: int, point: tuple[int, int]) -> tuple[int, int]:
    found = (0, 1)
    while scalar:
        if scalar & 1:
            found = add(found, point)
        point = add(point, point)
        scalar >>= 1
    return found


def encode(point: tuple[int, int]) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def decode(encoded: bytes) -> tuple[int, int]:
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, (y & (1 << 255) - 1) % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x if x & 1 == sign else -x % P), y


def challenge(r: bytes, key: bytes, content: bytes) -> int:
    return int.from_bytes(sha512(r + key + content).digest(), "little")


def sign(scalar: int, key: bytes, content: bytes, r_plus: tuple[int, int] = (0, 1)) -> bytes:
    """Sign with a secret scalar, for any encoding of the public key, and with a point added to R."""
    nonce = number_from("r", scalar, key.hex(), content.hex()) % L
    r = encode(add(times(nonce, BASE), r_plus))
    return r + ((nonce + challenge(r, key, content) * scalar) % L).to_bytes(32, "little")
