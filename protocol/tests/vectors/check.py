#!/usr/bin/env python3
"""An independent implementation of DREAM, version 1, that checks the test vectors beside it.

It is written from docs/protocol.md and docs/protocol-gateway.md, not from the Rust code, and may be read as a reference for
another meter or gateway: section numbers in comments are those pages'. It keeps no secrets and runs in no constant time: do
not ship it.

    python3 -m venv .venv && .venv/bin/pip install -r protocol/tests/vectors/requirements.txt
    .venv/bin/python protocol/tests/vectors/check.py               # all files, then the self-test
    .venv/bin/python protocol/tests/vectors/check.py --self-test   # only: is every alteration of a vector noticed?
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import cbor2
import pycddl
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtensionOID, NameOID

FOLDER = Path(__file__).parent


class Refused(Exception):
    """Something breaks a rule of the protocol; the text names it, from the outside in: `list/enrolment/period`."""


@contextmanager
def inside(part: str) -> Iterator[None]:
    """Names the part of a message in which a rule is broken."""
    try:
        yield
    except Refused as refused:
        raise Refused(f"{part}/{refused}") from None


def require(holds: bool, rule: str) -> None:
    if not holds:
        raise Refused(rule)


# ---- 3. Keys ---------------------------------------------------------------------------------------------------------

WORD = 2**64
FIELD_PRIME = 2**255 - 19


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def joined(*fields: bytes) -> bytes:
    """Fields, each after its length in two bytes."""
    return b"".join(len(part).to_bytes(2, "big") + part for part in fields)


@cache
def x25519(private: bytes, public: bytes) -> bytes:
    """The shared secret. The library refuses a result of zero, which is what keys of small order give."""
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise Refused("low_order") from None


def x25519_public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def canonical_x25519(public: bytes) -> bytes:
    """The u-coordinate that X25519 sees. Two keys with the same one are one key."""
    u = int.from_bytes(public, "little") % 2**255 % FIELD_PRIME
    return u.to_bytes(32, "little")


def has_small_order(public: bytes) -> bool:
    try:
        x25519(bytes(range(32)), public)
    except Refused:
        return True
    return False


def is_small_order_point(encoded: bytes) -> bool:
    """Whether an Ed25519 point has order 1, 2, 4 or 8, which its y-coordinate tells."""
    d = -121665 * pow(121666, -1, FIELD_PRIME)
    y = int.from_bytes(encoded, "little") % 2**255 % FIELD_PRIME
    return y in (0, 1, FIELD_PRIME - 1) or (d * y**4 + 2 * y**2 - 1) % FIELD_PRIME == 0


def is_sound_key(encoded: bytes) -> bool:
    """Whether bytes are the one encoding of a point of Ed25519 that is not of small order."""
    d = -121665 * pow(121666, -1, FIELD_PRIME)
    y = int.from_bytes(encoded, "little") % 2**255
    if y >= FIELD_PRIME or is_small_order_point(encoded):
        return False
    x_squared = (y**2 - 1) * pow(d * y**2 + 1, -1, FIELD_PRIME)
    return pow(x_squared, (FIELD_PRIME - 1) // 2, FIELD_PRIME) == 1


def hkdf(list_hash: bytes, shared: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=list_hash, info=info).derive(shared)


def pair_key(list_hash: bytes, shared: bytes, cluster: str, one: str, other: str) -> bytes:
    """K_ij."""
    first, second = sorted([one.encode(), other.encode()])
    return hkdf(list_hash, shared, joined(b"dream/1 pair", cluster.encode(), first, second), 16)


def gateway_keys(list_hash: bytes, shared: bytes, cluster: str, meter: str) -> tuple[bytes, bytes]:
    """S_i and A_i."""
    both = hkdf(list_hash, shared, joined(b"dream/1 gateway", cluster.encode(), meter.encode()), 48)
    return both[:16], both[16:]


def block(tag: int, attempt: int, counter: int) -> bytes:
    return bytes([tag, attempt]) + bytes(6) + counter.to_bytes(8, "big")


def aes(key: bytes, one_block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(one_block)


def mask(key: bytes, slot: int, attempt: int) -> int:
    """k_ij: one AES block for an even slot and the odd one after it."""
    output = aes(key, block(1, attempt, slot >> 1))
    return int.from_bytes(output[8:] if slot % 2 else output[:8], "big")


def selection(key: bytes, slot: int, attempt: int) -> int:
    """u_ij."""
    return int.from_bytes(aes(key, block(2, attempt, slot))[:8], "big")


def keystream(key: bytes, slot: int, attempt: int, length: int) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(block(3, attempt, slot))).encryptor().update(bytes(length))


def stream(key: bytes, slot: int, attempt: int) -> int:
    """K'_i."""
    return int.from_bytes(keystream(key, slot, attempt, 8), "big")


def secret(self_key: bytes, list_hash: bytes, slot: int, attempt: int, y: int, r: bytes) -> int:
    """C_i."""
    message = joined(
        b"dream/1 secret",
        list_hash,
        slot.to_bytes(8, "big"),
        bytes([attempt]),
        y.to_bytes(8, "big", signed=True),
        r,
    )
    return int.from_bytes(hmac.digest(self_key, message, "sha256")[:8], "big")


# ---- 3 and 4a. Numbers of a committee ---------------------------------------------------------------------------------

P = 2**61 - 1


def committee_stream(key: bytes, slot: int, attempt: int) -> int:
    """K'_i with a committee."""
    return int.from_bytes(keystream(key, slot, attempt, 16), "big") % P


def dealt(key: bytes, up: bool, slot: int, attempt: int) -> int:
    """P(i,l)."""
    return int.from_bytes(aes(key, block(4 if up else 5, attempt, slot)), "big") % P


def dealt_to_itself(self_key: bytes, list_hash: bytes, slot: int, attempt: int) -> int:
    """P(i,i)."""
    message = joined(b"dream/1 self", list_hash, slot.to_bytes(8, "big"), bytes([attempt]))
    return int.from_bytes(hmac.digest(self_key, message, "sha256")[:16], "big") % P


@cache
def lagrange(count: int, target: int) -> list[int]:
    """By what the values at 1 to count have to be multiplied to give the value at another point."""
    weights = []
    for own in range(1, count + 1):
        above = below = 1
        for other in range(1, count + 1):
            if other != own:
                above = above * (target - other) % P
                below = below * (own - other) % P
        weights.append(above * pow(below, -1, P) % P)
    return weights


def polynomial_at(values: list[int], target: int) -> int:
    weights = lagrange(len(values), target)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) % P


def deal(numbers: list[int], needed: int) -> tuple[int, list[int]]:
    """C and the corrections of a member that deals these numbers to the holders."""
    require(1 <= needed <= len(numbers) and all(0 <= number < P for number in numbers), "dealing")
    first = numbers[:needed]
    off = [polynomial_at(first, x) - numbers[x - 1] for x in range(needed + 1, len(numbers) + 1)]
    return polynomial_at(first, 0), [one % P for one in off]


def product(one: list[int], other: list[int]) -> list[int]:
    """Of two polynomials, given by their coefficients, the lowest first."""
    result = [0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            result[i + j] = (result[i + j] + a * b) % P
    return result


def trimmed(one: list[int]) -> list[int]:
    while one and one[-1] == 0:
        one = one[:-1]
    return one


def divided(one: list[int], other: list[int]) -> tuple[list[int], list[int]]:
    """Quotient and remainder."""
    rest, other = list(one), trimmed(other)
    quotient = [0] * max(len(rest) - len(other) + 1, 1)
    inverse = pow(other[-1], -1, P)
    for shift in range(len(rest) - len(other), -1, -1):
        factor = quotient[shift] = rest[shift + len(other) - 1] * inverse % P
        for place, coefficient in enumerate(other):
            rest[shift + place] = (rest[shift + place] - factor * coefficient) % P
    return trimmed(quotient), trimmed(rest)


def through(points: list[tuple[int, int]]) -> list[int]:
    """The polynomial of the least degree through points, by Newton's divided differences."""
    xs, differences = [x for x, _ in points], [y for _, y in points]
    for order in range(1, len(points)):
        for at in range(len(points) - 1, order - 1, -1):
            rise = differences[at] - differences[at - 1]
            differences[at] = rise * inverse_of(xs[at] - xs[at - order]) % P
    result: list[int] = []
    for x, difference in zip(reversed(xs), reversed(differences), strict=True):
        shifted = [0, *result]
        for place, coefficient in enumerate(result):
            shifted[place] = (shifted[place] - x * coefficient) % P
        shifted[0] = (shifted[0] + difference) % P
        result = shifted
    return trimmed(result)


@cache
def inverse_of(number: int) -> int:
    return pow(number, -1, P)


def value_at(coefficients: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % P
    return value


def decode_answers(needed: int, points: list[tuple[int, int]]) -> tuple[int, list[int]]:
    """G(0), and the points of the answers that are not on G. S. Gao's decoder for Reed-Solomon codes (2003): Euclid's
    algorithm on the polynomial that is 0 at all points and the one through all answers, until the degree is low enough."""
    xs = [x for x, _ in points]
    require(needed >= 1 and len(set(xs)) == len(xs) and all(1 <= x <= 256 for x in xs), "points")
    require(all(0 <= y < P for _, y in points), "points")
    require(len(points) >= needed, "too_few")
    vanishing = [1]
    for x in xs:
        vanishing = product(vanishing, [-x % P, 1])
    before, now = vanishing, through(points)
    factor_before, factor = [], [1]
    while 2 * (len(now) - 1) >= len(points) + needed:
        quotient, rest = divided(before, now)
        step = product(quotient, factor)
        length = max(len(step), len(factor_before))
        step += [0] * (length - len(step))
        earlier = factor_before + [0] * (length - len(factor_before))
        before, now = now, rest
        factor_before, factor = factor, trimmed([(a - b) % P for a, b in zip(earlier, step, strict=True)])
    found, rest = divided(now, factor) if len(now) >= len(factor) else ([], now)
    require(rest == [] and len(found) <= needed, "too_many_wrong")
    wrong = sorted(x for x, y in points if value_at(found, x) != y)
    require(2 * len(wrong) <= len(points) - needed, "too_many_wrong")
    return value_at(found, 0), wrong


def sigma(value: bytes, day: int) -> int:
    """What is drawn for a meter on a day, by its draw value."""
    return int.from_bytes(sha256(joined(b"dream/1 committee", value, day.to_bytes(8, "big")))[:8], "big")


def drawn_below(members: int, k: int) -> int | None:
    """Below which a draw makes a holder; None if every draw does."""
    return None if k == 0 else k * WORD // members


@cache
def most_drawn(mean: int) -> int:
    """F: the least number that a Poisson variable exceeds with a probability of at most 2^-64."""
    with localcontext() as context:
        context.prec = 80
        term = total = (-Decimal(mean)).exp()
        most = 0
        while 1 - total > Decimal(2) ** -64:
            most += 1
            term = term * mean / most
            total += term
        return most


def colluding(members: int, malicious: int, k: int) -> int | None:
    """f, or None if k is out of range."""
    if k == 0:
        return 2 * malicious
    mean = -(-2 * malicious * k // members)
    return min(2 * malicious, most_drawn(mean)) if k < members and mean <= 64 else None


def quorum(holders: int, f: int) -> int:
    """The q that our gateway takes (informative)."""
    return max((holders + f) // 2 + 1, holders - holders // 4)


def chosen(members: int, malicious: int, draws: list[int]) -> dict[str, int] | None:
    """The committee that our gateway takes (informative)."""
    require(len(draws) <= members, "willing")
    tried = [0]
    if members > 200:
        tried = [min(-(-wanted * members // len(draws)), members - 1) for wanted in (160, 180, 200, 220, 130)]
    for k in tried:
        f = colluding(members, malicious, k)
        holders = len(draws) if k == 0 else sum(draw < drawn_below(members, k) for draw in draws)
        if f is None or not 1 <= holders <= 256:
            continue
        q = quorum(holders, f)
        least = max(1, min(15, holders // 5)) if k == 0 else 15
        if holders - q >= least:
            return {"k": k, "holders": holders, "f": f, "quorum": q}
    return None


# ---- 4 and 6. Masks of a whole cluster -------------------------------------------------------------------------------


def threshold(members: int, partners: int) -> int | None:
    """Below which a pair is selected; None when every other member is a partner."""
    if partners == 0 or partners >= members - 1:
        return None
    return partners * WORD // (members - 1)


def mask_sum(
    own: int, keys: list[bytes | None], limit: int | None, slot: int, attempt: int, among: set[int] | None = None
) -> int:
    """The signed masks of member `own` with its partners, or with those of them that are `among` some members."""
    total = 0
    for other, key in enumerate(keys):
        if key is None or (among is not None and other not in among):
            continue
        if limit is not None and selection(key, slot, attempt) >= limit:
            continue
        total += mask(key, slot, attempt) if own > other else -mask(key, slot, attempt)
    return total % WORD


def bitmap(members: int, chosen: set[int]) -> bytes:
    bits = bytearray(-(-members // 8))
    for member in chosen:
        bits[member // 8] |= 0x80 >> (member % 8)
    return bytes(bits)


def members_of(members: int, bits: bytes) -> set[int]:
    require(len(bits) == -(-members // 8), "bitmap/length")
    chosen = {member for member in range(8 * len(bits)) if bits[member // 8] & (0x80 >> (member % 8))}
    require(all(member < members for member in chosen), "bitmap/spare_bits")
    return chosen


# ---- 7. Messages -----------------------------------------------------------------------------------------------------

ID = re.compile("[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
MAC_HEADER = cbor2.dumps({1: 4})  # HMAC 256/64
SIGN_HEADER = cbor2.dumps({1: -8})  # EdDSA
X5CHAIN = 33


def encode(item: Any) -> bytes:
    return cbor2.dumps(item, canonical=True)


def decode(data: bytes) -> Any:
    """The one item of which the bytes are the deterministic encoding. Trailing bytes do not survive the way back."""
    try:
        item = cbor2.loads(data)
        require(encode(item) == data, "malformed")
    except Refused:
        raise
    except Exception:  # whatever a decoder may think of
        raise Refused("malformed") from None
    return item


def uint(item: Any, most: int = WORD - 1) -> bool:
    return type(item) is int and 0 <= item <= most


def sint(item: Any) -> bool:
    return type(item) is int and -(2**63) <= item < 2**63


def octets(length: int) -> Callable[[Any], bool]:
    return lambda item: type(item) is bytes and len(item) == length


def octets_of_any_length(item: Any) -> bool:
    return type(item) is bytes


def cluster_id(item: Any) -> bool:
    return type(item) is str and ID.fullmatch(item) is not None and item != "gateway"


def attempt_number(item: Any) -> bool:
    return uint(item, 254)


def below_p(item: Any) -> bool:
    """A number modulo p."""
    return octets(8)(item) and int.from_bytes(item, "big") < P


def all_below_p(item: Any) -> bool:
    return type(item) is bytes and len(item) % 8 == 0 and all(below_p(part) for part in in_parts(item, 8))


def fingerprints(item: Any) -> bool:
    """One to sixteen hashes in one byte string, each above the one before it."""
    if type(item) is not bytes or len(item) % 32 != 0 or not 1 <= len(item) // 32 <= 16:
        return False
    return all(one < following for one, following in pairwise(in_parts(item, 32)))


def in_parts(data: bytes, length: int) -> list[bytes]:
    return [data[at : at + length] for at in range(0, len(data), length)]


# What section 2 has limits for.
TERMS = (
    "slot_seconds",
    "reading_seconds",
    "reveal_seconds",
    "scheme",
    "max_missing",
    "max_malicious",
    "partners",
    "quorum",
    "holders",
    "lo",
    "hi",
    "epsilon_numerator",
    "epsilon_denominator",
    "day_micro_rho",
    "attempts",
)

PAIRWISE, COMMITTEE = 0, 1

EQUIVOCATION = 8  # the code of a status with evidence

# Every message: its kind, and its fields with what each must look like.
PAYLOADS: dict[int, tuple[str, dict[str, Callable[[Any], bool]]]] = {
    1: ("reading", {"list": octets(8), "slot": uint, "attempt": attempt_number, "ct": octets(8)}),
    2: (
        "recovery request",
        {
            "list": octets(32),
            "slot": uint,
            "attempt": attempt_number,
            "missing": octets_of_any_length,
            "deadline": uint,
        },
    ),
    3: (
        "reveal",
        {"list": octets(8), "slot": uint, "attempt": attempt_number, "revealed": octets(8), "request": octets(8)},
    ),
    4: (
        "enrolment",
        {
            "cluster": cluster_id,
            "certificate": octets(32),
            "agreement": octets(32),
            "not_before": uint,
            "not_after": uint,
            "seq": uint,
            "holds": lambda item: uint(item, 10_000),
        },
    ),
    6: (
        "status",
        {
            "cluster": cluster_id,
            "list": lambda item: type(item) is bytes and len(item) in (0, 8),
            "slot": uint,
            "code": lambda item: uint(item) and 1 <= item <= 9,
            "newest_epoch": uint,
            "least_malicious": lambda item: uint(item, 10_000),
            "evidence": octets_of_any_length,
        },
    ),
    7: (
        "retry",
        {
            "list": octets(32),
            "slot": uint,
            "attempt": lambda item: attempt_number(item) and item > 0,
            "deadline": uint,
        },
    ),
    8: (
        "dealt reading",
        {"list": octets(8), "slot": uint, "attempt": attempt_number, "ct": below_p, "corrections": all_below_p},
    ),
    9: (
        "answer",
        {"list": octets(8), "slot": uint, "attempt": attempt_number, "sum": below_p, "request": octets(8)},
    ),
    10: (
        "list header",
        {
            "cluster": cluster_id,
            "epoch": uint,
            "previous_epoch": uint,
            "previous": octets(32),
            "certificate": octets(32),
            "gateway": octets(32),
            "meter_authorities": fingerprints,
            "gateway_authority": octets(32),
            "from_slot": uint,
            "to_slot": uint,
            "slot_seconds": uint,
            "reading_seconds": uint,
            "reveal_seconds": uint,
            "scheme": uint,
            "max_missing": uint,
            "max_malicious": uint,
            "partners": uint,
            "quorum": uint,
            "lo": sint,
            "hi": sint,
            "epsilon_numerator": uint,
            "epsilon_denominator": uint,
            "account": uint,
            "day_micro_rho": uint,
            "attempts": uint,
            "members": uint,
            "holders": uint,
            "entries_hash": octets(32),
            "digests_hash": octets(32),
            "holders_hash": octets(32),
        },
    ),
    11: (
        "evidence",
        {
            "cluster": cluster_id,
            "certificate": octets_of_any_length,
            "first": octets_of_any_length,
            "second": octets_of_any_length,
        },
    ),
}


def payload(kind: int, values: dict[str, Any]) -> bytes:
    return encode([kind, *(values[name] for name in PAYLOADS[kind][1])])


def read_payload(data: bytes, *kinds: int) -> tuple[int, dict[str, Any]]:
    """The kind and the fields of a payload that must be of one of some kinds."""
    items = decode(data)
    require(type(items) is list and len(items) > 0 and uint(items[0]) and items[0] in kinds, "malformed")
    kind, *values = items
    fields = PAYLOADS[kind][1]
    require(len(values) == len(fields), "malformed")
    require(all(looks_right(value) for looks_right, value in zip(fields.values(), values, strict=True)), "malformed")
    message = dict(zip(fields, values, strict=True))
    if kind == 6:
        require((message["evidence"] != b"") == (message["code"] == EQUIVOCATION), "malformed")
    if kind == 10:
        require(message["scheme"] in (PAIRWISE, COMMITTEE), "malformed")
        require(message["scheme"] == COMMITTEE or message["quorum"] == message["holders"] == 0, "malformed")
        require(message["account"] == (2 if message["day_micro_rho"] else 0), "malformed")
    return kind, message


def mac(key: bytes, topic: str, content: bytes) -> bytes:
    structure = encode(["MAC0", MAC_HEADER, topic.encode(), content])
    return hmac.digest(key, structure, "sha256")[:8]


def mac0(key: bytes, topic: str, content: bytes) -> bytes:
    return encode([MAC_HEADER, {}, content, mac(key, topic, content)])


def signed_bytes(topic: str, content: bytes) -> bytes:
    return encode(["Signature1", SIGN_HEADER, topic.encode(), content])


def sign1(private: bytes, topic: str, content: bytes, certificate: bytes | None = None) -> bytes:
    signature = Ed25519PrivateKey.from_private_bytes(private).sign(signed_bytes(topic, content))
    return encode([SIGN_HEADER, {} if certificate is None else {X5CHAIN: certificate}, content, signature])


@dataclass
class Envelope:
    """A COSE structure that is well formed, and not yet believed."""

    header: dict[int, Any]
    content: bytes
    proof: bytes

    @staticmethod
    def read(data: bytes, protected: bytes, proof_length: int) -> Envelope:
        parts = decode(data)
        require(type(parts) is list and len(parts) == 4, "malformed")
        require(parts[0] == protected and type(parts[1]) is dict and type(parts[2]) is bytes, "malformed")
        require(octets(proof_length)(parts[3]), "malformed")
        return Envelope(*parts[1:])

    @staticmethod
    def mac0(data: bytes) -> Envelope:
        envelope = Envelope.read(data, MAC_HEADER, 8)
        require(envelope.header == {}, "malformed")
        return envelope

    @staticmethod
    def sign1(data: bytes) -> Envelope:
        envelope = Envelope.read(data, SIGN_HEADER, 64)
        require(envelope.header == {}, "malformed")
        return envelope

    @staticmethod
    def certified(data: bytes) -> tuple[Envelope, bytes]:
        """With the signer's certificate."""
        envelope = Envelope.read(data, SIGN_HEADER, 64)
        require(list(envelope.header) == [X5CHAIN] and type(envelope.header[X5CHAIN]) is bytes, "malformed")
        return envelope, envelope.header[X5CHAIN]

    def check_mac(self, key: bytes, topic: str) -> None:
        require(hmac.compare_digest(mac(key, topic, self.content), self.proof), "bad_mac")

    def check_signature(self, public: bytes, topic: str) -> None:
        """Strictly: a key or an R of small order, which the library lets through, would divide verifiers."""
        require(not is_small_order_point(public) and not is_small_order_point(self.proof[:32]), "bad_signature")
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(self.proof, signed_bytes(topic, self.content))
        except (InvalidSignature, ValueError):
            raise Refused("bad_signature") from None


# ---- 3. Certificates -------------------------------------------------------------------------------------------------


@dataclass
class Identity:
    """What a certificate says."""

    role: str
    id: str
    key: bytes
    not_before: int
    not_after: int
    cluster: str | None = None  # the only one that a meter may enrol in
    size: int | None = None  # how many meters that has
    draw: bytes | None = None  # what a holder is drawn by


DRAW_URN = re.compile("urn:dream:draw:([0-9a-f]{32})", re.ASCII)
CLUSTER_URN = re.compile("urn:dream:cluster:([^:]*)(?::([1-9][0-9]{0,4}))?", re.ASCII)


def element(tag: int, content: bytes) -> bytes:
    """A DER element of at most 127 bytes, which is all that is compared here."""
    return bytes([tag, len(content)]) + content


def check_encoding(certificate: x509.Certificate, extension: x509.Extension) -> None:
    """Refuses what the library reads although it is not DER, such as a bit list with zeros at its end."""
    critical = b"\x01\x01\xff" if extension.critical else b""
    body = extension.value.public_bytes()
    if len(body) < 100:
        require(critical + element(4, body) in certificate.tbs_certificate_bytes, "bad_extension")


def common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    require(len(names) == 1, "common_name")
    [name] = names
    if name._type.name == "PrintableString":
        require("_" not in name.value, "common_name")
    else:
        require(name._type.name == "UTF8String", "common_name")
    return name.value


def certified_cluster(urn: str) -> tuple[str, int | None]:
    match = CLUSTER_URN.fullmatch(urn)
    require(match is not None and cluster_id(match[1]), "cluster")
    size = None if match[2] is None else int(match[2])
    require(size is None or size <= 10_000, "cluster")
    return match[1], size


@dataclass(frozen=True)
class Authorities:
    """Whose certificates count, by role."""

    meters: tuple[x509.Certificate, ...]
    gateways: tuple[x509.Certificate, ...]

    def of(self, role: str) -> tuple[x509.Certificate, ...]:
        return self.meters if role == "meter" else self.gateways

    def only(self, meters: list[bytes], gateway: bytes) -> Authorities:
        """Those that a list names, each in its role."""
        return Authorities(self.named("meter", meters), self.named("gateway", [gateway]))

    def named(self, role: str, fingerprints: list[bytes]) -> tuple[x509.Certificate, ...]:
        known = {fingerprint(authority): authority for authority in self.of(role)}
        others = {fingerprint(authority) for authority in self.of(OTHER[role])}
        for one in fingerprints:
            require(one in known, "wrong_authority" if one in others else "unknown_authority")
        return tuple(known[one] for one in fingerprints)


OTHER = {"meter": "gateway", "gateway": "meter"}


def fingerprint(authority: x509.Certificate) -> bytes:
    """How a list names an authority: by its name and its key, one after the other."""
    key = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(authority.subject.public_bytes() + key)


def is_issued_by(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    key, signed = authority.public_key(), certificate.tbs_certificate_bytes
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(certificate.signature, signed, ec.ECDSA(certificate.signature_hash_algorithm))
        else:
            require(not is_small_order_point(certificate.signature[:32]), "bad_signature")
            key.verify(certificate.signature, signed)
    except InvalidSignature:
        return False
    return True


def check_issuer(certificate: x509.Certificate, role: str, authorities: Authorities) -> None:
    """Only an authority of the role that is expected counts; that one of the other role issued it is worth saying."""

    def issued(by: tuple[x509.Certificate, ...]) -> list[bool]:
        issuer = certificate.issuer.public_bytes()
        return [is_issued_by(authority, certificate) for authority in by if authority.subject.public_bytes() == issuer]

    found = issued(authorities.of(role))
    if not any(found):
        require(not any(issued(authorities.of(OTHER[role]))), "wrong_authority")
        raise Refused("bad_signature" if found else "unknown_authority")


def read_certificate(der: bytes, expected: str, authorities: Authorities) -> Identity:
    """Who a certificate speaks of, who must be a meter or a gateway, as expected."""
    try:
        certificate = x509.load_der_x509_certificate(der)
    except ValueError:
        raise Refused("malformed") from None
    # The library takes a signature's BIT STRING with unused bits, which would give one certificate several hashes.
    require(der[-len(certificate.signature) - 1] == 0, "malformed")
    check_issuer(certificate, expected, authorities)
    key = certificate.public_key()
    require(isinstance(key, Ed25519PublicKey), "not_ed25519")
    require(is_sound_key(key.public_bytes_raw()), "weak_key")

    try:
        extensions = list(certificate.extensions)
    except ValueError:
        raise Refused("bad_extension") from None
    names = []
    for extension in extensions:
        if extension.oid == ExtensionOID.BASIC_CONSTRAINTS:
            require(not extension.value.ca, "is_an_authority")
            check_encoding(certificate, extension)
        elif extension.oid == ExtensionOID.KEY_USAGE:
            require(extension.value.digital_signature, "key_usage")
            check_encoding(certificate, extension)
        elif extension.oid == ExtensionOID.SUBJECT_ALTERNATIVE_NAME:
            names = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
            check_encoding(certificate, extension)
        elif extension.oid != ExtensionOID.EXTENDED_KEY_USAGE:
            require(not extension.critical, "unknown_critical_extension")

    common = common_name(certificate)
    names = [name for name in names if name.startswith("urn:dream:")]
    clusters = [name for name in names if name.startswith("urn:dream:cluster:")]
    draws = [name for name in names if name.startswith("urn:dream:draw:")]
    names = [name for name in names if name not in clusters + draws]
    require(len(names) == 1, "name")
    require(len(clusters) <= 1, "cluster")
    require(len(draws) <= 1, "draw")
    match = re.fullmatch("urn:dream:(meter|gateway):(.*)", names[0])
    require(match is not None, "name")
    role, named = match.groups()
    require(named == common, "name_mismatch")
    require(ID.fullmatch(named) is not None, "id/character" if 1 <= len(named) <= 64 else "id/length")
    require(role == "meter" or not clusters, "cluster")
    require(role == "meter" or not draws, "draw")
    cluster, size = certified_cluster(clusters[0]) if clusters else (None, None)
    value = DRAW_URN.fullmatch(draws[0]) if draws else None
    require(not draws or value is not None, "draw")
    require(role == expected, "wrong_role")
    return Identity(
        role,
        named,
        key.public_bytes_raw(),
        int(certificate.not_valid_before_utc.timestamp()),
        int(certificate.not_valid_after_utc.timestamp()),
        cluster,
        size,
        bytes.fromhex(value[1]) if value else None,
    )


# ---- 2, 4 and 6. Parameters ------------------------------------------------------------------------------------------


@cache
def closing(members: int, missing: int, malicious: int, partners: int) -> float:
    """The base-2 logarithm of section 6's bound."""
    survivors, n = members - malicious, members - malicious - missing
    with localcontext() as context:
        context.prec = 40
        unselected = 1 - Decimal(partners) / (members - 1)
        total = Decimal(0)
        for u in range(1, n):
            for j in range(n - u, min(n - 1, n - u + missing) + 1):
                sets = math.comb(n - 1, j) * math.comb(missing, j - n + u)
                total += Decimal(survivors) / u * sets * unselected ** (u * j)
            if total > 1:
                break  # no probability any more
        return float(total.log10() / Decimal(2).log10())


@dataclass
class Params:
    """What follows from the number of members and the terms of a list."""

    members: int
    terms: dict[str, int]

    def __post_init__(self) -> None:
        n, t = self.members, self.terms
        missing, malicious = t["max_missing"], t["max_malicious"]
        require(1 <= n <= 10_000, "members")
        require(5 * missing <= n, "too_many_missing")
        require(10 * malicious >= n, "too_few_malicious")
        require(missing + malicious < n, "none_honest")
        parts = (t["epsilon_numerator"], t["epsilon_denominator"])
        require(all(1 <= part <= 1_000_000 for part in parts), "epsilon")
        require(t["day_micro_rho"] < 2**40, "day_rho")
        require(t["lo"] <= 0 <= t["hi"] and t["lo"] < t["hi"], "range")
        require(n * self.sensitivity + 200 * self.scale < 2**40, "too_large")
        require(t["day_micro_rho"] == 0 or self.scale >= 1, "day_scale")
        windows = (t["reading_seconds"], t["reveal_seconds"], t["slot_seconds"], t["attempts"])
        require(all(part >= 1 for part in windows), "windows")
        require(t["slot_seconds"] <= 86_400 and t["attempts"] <= 255, "windows")
        require(t["attempts"] * (t["reading_seconds"] + t["reveal_seconds"]) <= t["slot_seconds"], "windows")
        require(t["scheme"] in (PAIRWISE, COMMITTEE), "scheme")
        if t["scheme"] == COMMITTEE:
            holders, f = t["holders"], self.colluding
            require(1 <= holders <= min(n, 256), "holders")
            require(f is not None, "drawn")
            require(f < t["quorum"] <= holders and 2 * t["quorum"] > holders + f, "needed")
            require(4 * missing < n - malicious, "committee_missing")
        else:
            require(t["quorum"] == t["holders"] == 0, "scheme")
        if self.threshold is not None:
            require(n <= 1000, "too_large_for_partners")
            require(self.closing <= -64, "too_few_partners")

    @property
    def honest(self) -> int:
        return self.members - self.terms["max_missing"] - self.terms["max_malicious"]

    @property
    def sensitivity(self) -> int:
        return self.terms["hi"] - self.terms["lo"]

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.terms["epsilon_numerator"], self.terms["epsilon_denominator"])

    @property
    def scale(self) -> Fraction:
        """lambda."""
        return self.sensitivity / self.epsilon

    @property
    def charge(self) -> int:
        return math.ceil(1_000_000 * self.epsilon)

    @property
    def plain_day(self) -> int:
        """What the slots of a day cost where no rho is stated, but for retries: epsilon for each, in millionths."""
        return -(-86_400 // self.terms["slot_seconds"]) * self.charge

    @property
    def day_rms(self) -> int | None:
        """The largest root mean square of a day's readings that rho pays for, in watts."""
        rho, weight = self.terms["day_micro_rho"], 2 if self.terms["lo"] < 0 else 1
        slots = -(-86_400 // self.terms["slot_seconds"])
        return math.isqrt(rho * math.floor(self.scale**2) // (1_000_000 * weight * slots)) if rho else None

    @property
    def threshold(self) -> int | None:
        """For selection among pairs."""
        return threshold(self.members, self.terms["partners"]) if self.terms["scheme"] == PAIRWISE else None

    @property
    def colluding(self) -> int | None:
        """f."""
        if self.terms["scheme"] == PAIRWISE:
            return None
        return colluding(self.members, self.terms["max_malicious"], self.terms["partners"])

    @property
    def drawn_below(self) -> int | None:
        return None if self.terms["scheme"] == PAIRWISE else drawn_below(self.members, self.terms["partners"])

    @property
    def draws(self) -> bool:
        """Whether holders are drawn, so that others need only the short list."""
        return self.terms["scheme"] == COMMITTEE and self.terms["partners"] > 0

    @property
    def closing(self) -> float:
        return closing(self.members, self.terms["max_missing"], self.terms["max_malicious"], self.terms["partners"])

    def plausible(self) -> tuple[int, int]:
        """The least and the greatest sum that can be one."""
        least = self.members * self.terms["lo"] - 100 * self.scale
        most = self.members * self.terms["hi"] + 100 * self.scale
        return math.ceil(least), math.floor(most)

    def starts(self, slot: int) -> int:
        return slot * self.terms["slot_seconds"]


# ---- 5a. A day -------------------------------------------------------------------------------------------------------

UNITS = 2**20  # of a millionth of rho


@dataclass
class Day:
    """The account of one UTC day."""

    reserved: int = 0  # rho, in millionths
    used: int = 0  # in units

    def report(self, stated: int, weight: int, scale: Fraction, slots: int, x: int) -> int:
        """What is reported of a clipped reading, with so many slots to midnight, under a list that states this rho."""
        if stated == 0:
            return x
        self.reserved = self.reserved or stated
        left = max(0, min(stated, self.reserved) * UNITS - self.used)
        allowed = min(left, 4 * left // slots)
        square, unit = math.floor(scale**2), weight * 1_000_000 * UNITS
        part = min(abs(x), math.isqrt(allowed * square // unit))
        cost = -(-part * part * unit // square)
        same("no more than allowed", cost <= allowed, True)
        self.used += cost
        return part if x >= 0 else -part


# ---- 5. Noise --------------------------------------------------------------------------------------------------------


@cache
def one_side(honest: int, scale: Fraction) -> list[float]:
    """P(NB(1/n, p) = k) for all k that matter."""
    a, p = 1 / honest, math.exp(-1 / scale)
    probabilities = [(-math.expm1(-1 / scale)) ** a]
    for k in range(math.ceil(45 * scale)):
        probabilities.append(probabilities[-1] * (a + k) / (k + 1) * p)
    return probabilities


@cache
def share_probability(honest: int, scale: Fraction, distance: int) -> float:
    """P(z = d) for z = NB(1/n, p) - NB(1/n, p), straight from the definition."""
    side = one_side(honest, scale)
    return math.fsum(x * y for x, y in zip(side, side[distance:], strict=False))


# ---- 8. Enrolments and lists -----------------------------------------------------------------------------------------


def remembered(read: Callable) -> Callable:
    """Reads the same bytes once only, as long as they are sound."""
    return lru_cache(maxsize=512)(read)


@dataclass
class Enrolment:
    identity: Identity
    fields: dict[str, Any]
    hash: bytes

    def is_holder(self, params: Params, from_slot: int) -> bool:
        """Whether this member is a holder of a list (4a)."""
        if self.fields["holds"] < params.members:
            return False
        limit, value = params.drawn_below, self.identity.draw
        return limit is None or (value is not None and sigma(value, params.starts(from_slot) // 86_400) < limit)


@remembered
def read_enrolment(data: bytes, cluster: str, authorities: Authorities) -> Enrolment:
    """An enrolment that may be believed, no matter who passed it on: its topic follows from its certificate."""
    envelope, der = Envelope.certified(data)
    _, fields = read_payload(envelope.content, 4)
    require(fields["cluster"] == cluster, "other_cluster")
    with inside("certificate"):
        identity = read_certificate(der, "meter", authorities)
    require(fields["certificate"] == sha256(der), "other_certificate")
    require(identity.cluster in (None, cluster), "certified_cluster")
    envelope.check_signature(identity.key, f"dream/v1/{cluster}/enrol/{identity.id}")
    require(1 <= fields["not_after"] - fields["not_before"] <= 35 * 86_400, "period")
    require(not has_small_order(fields["agreement"]), "low_order")
    return Enrolment(identity, fields, sha256(data))


@dataclass
class MembershipList:
    hash: bytes
    gateway: Identity
    fields: dict[str, Any]
    params: Params
    members: list[Enrolment]  # all of them, or in a short list the holders
    holders: list[Enrolment]
    digests: list[bytes] | None = None  # of a short list

    @property
    def is_full(self) -> bool:
        return self.digests is None

    def index(self, meter: str) -> int | None:
        ids = [member.identity.id for member in self.members]
        return ids.index(meter) if meter in ids else None

    def has_holder(self, meter: str) -> bool:
        return meter in [holder.identity.id for holder in self.holders]


def digests_of(entries: list[bytes]) -> bytes:
    return b"".join(sha256(entry)[:8] for entry in entries)


def hash_of_all(entries: list[bytes]) -> bytes:
    return sha256(b"".join(sha256(entry) for entry in entries))


def hashes_of(entries: list[bytes], holders: list[bytes]) -> dict[str, bytes]:
    """The hashes by which a header names its list's entries, and those of its holders."""
    return {
        "entries_hash": hash_of_all(entries),
        "digests_hash": sha256(digests_of(entries)),
        "holders_hash": hash_of_all(holders),
    }


def split_list(data: bytes, *rest: type) -> tuple[bytes, list[bytes], bytes]:
    """The header of a list, in its envelope, the entries, and the digests of a short one."""
    parts = decode(data)
    require(type(parts) is list and [type(part) for part in parts] == [bytes, list, *rest], "malformed")
    header, entries, *digests = parts
    require(all(type(entry) is bytes for entry in entries), "malformed")
    require(len(entries) <= (256 if rest else 10_000), "malformed")
    return header, entries, b"".join(digests)


@dataclass
class Head:
    """A sound header: what whole and short lists have in common."""

    hash: bytes
    gateway: Identity
    fields: dict[str, Any]
    params: Params
    authorities: Authorities

    @staticmethod
    def read(data: bytes, cluster: str, configured: Authorities) -> Head:
        envelope, der = Envelope.certified(data)
        _, fields = read_payload(envelope.content, 10)
        require(fields["cluster"] == cluster, "other_cluster")
        authorities = configured.only(in_parts(fields["meter_authorities"], 32), fields["gateway_authority"])
        with inside("gateway"):
            gateway = read_certificate(der, "gateway", authorities)
        require(fields["certificate"] == sha256(der), "other_certificate")
        envelope.check_signature(gateway.key, f"dream/v1/{cluster}/membership")
        with inside("params"):
            params = Params(fields["members"], {name: fields[name] for name in TERMS})
        first, last = fields["from_slot"], fields["to_slot"]
        require(first <= last < 2**40, "slots")
        starts, ends = params.starts(first), params.starts(last + 1)
        require(fields["previous_epoch"] < fields["epoch"] < 2**40 and fields["epoch"] <= starts, "epoch")
        require(fields["previous_epoch"] > 0 or fields["previous"] == bytes(32), "epoch")
        require(gateway.not_before <= starts and ends <= gateway.not_after, "gateway_period")
        require(not has_small_order(fields["gateway"]), "low_order")
        return Head(sha256(envelope.content), gateway, fields, params, authorities)

    def entries(self, entries: list[bytes]) -> list[Enrolment]:
        """Enrolments that the list carries, each of which is sound, and all of which are together."""
        with inside("enrolment"):
            members = [read_enrolment(entry, self.fields["cluster"], self.authorities) for entry in entries]
        starts = self.params.starts(self.fields["from_slot"])
        ends = self.params.starts(self.fields["to_slot"] + 1)
        for member in members:
            begun = max(member.identity.not_before, member.fields["not_before"])
            over = min(member.identity.not_after, member.fields["not_after"])
            require(begun <= starts and ends <= over, "period")
        ids = [member.identity.id.encode() for member in members]
        require(all(one < following for one, following in pairwise(ids)), "order")
        identities = {self.gateway.key, *(member.identity.key for member in members)}
        require(len(identities) == len(members) + 1, "repeated_identity")
        sizes = [member.identity.size for member in members if member.identity.size is not None]
        require(all(10 * self.params.members >= 7 * size for size in sizes), "certified_size")
        return members

    def holders(self, members: list[Enrolment]) -> list[Enrolment]:
        """Who of some members are holders."""
        if self.params.terms["scheme"] == PAIRWISE:
            return []
        return [member for member in members if member.is_holder(self.params, self.fields["from_slot"])]


@remembered
def read_list(data: bytes, cluster: str, configured: Authorities) -> MembershipList:
    """A whole list that is sound for anyone."""
    header, entries, _ = split_list(data)
    head = Head.read(header, cluster, configured)
    fields = head.fields
    require(fields["members"] == len(entries), "member_count")
    require(fields["entries_hash"] == hash_of_all(entries), "other_entries")
    require(fields["digests_hash"] == sha256(digests_of(entries)), "other_entries")
    members = head.entries(entries)
    holders = head.holders(members)
    require(fields["holders"] == len(holders), "holder_count")
    require(fields["holders_hash"] == sha256(b"".join(holder.hash for holder in holders)), "other_holders")
    return MembershipList(head.hash, head.gateway, fields, head.params, members, holders)


@remembered
def read_short_list(data: bytes, cluster: str, configured: Authorities) -> MembershipList | None:
    """A short list that is sound for anyone, or None if its header is sound, and the whole list is needed."""
    header, entries, digests = split_list(data, bytes)
    head = Head.read(header, cluster, configured)
    fields = head.fields
    if not head.params.draws:
        require(entries == [] and digests == b"", "not_short")
        return None
    require(fields["holders"] == len(entries), "holder_count")
    require(fields["holders_hash"] == hash_of_all(entries), "other_holders")
    require(len(digests) == 8 * fields["members"] and fields["digests_hash"] == sha256(digests), "other_digests")
    each = in_parts(digests, 8)
    left = iter(each)
    require(all(sha256(entry)[:8] in left for entry in entries), "other_digests")  # `in` goes on where it was
    members = head.entries(entries)
    require(head.holders(members) == members, "not_a_holder")
    return MembershipList(head.hash, head.gateway, fields, head.params, members, members, each)


def denies(later: dict[str, Any], epoch: int, list_hash: bytes) -> bool:
    """Whether the header of a later list says that this list never was."""
    named = later["previous_epoch"]
    return named < epoch or (named == epoch and later["previous"] != list_hash)


@dataclass
class Policy:
    """What a meter accepts (2); the defaults, but for how small a cluster and how large a rho may be."""

    gateways: set[str]
    lo: int = -10_000
    hi: int = 15_000
    scale: int = 2_000
    epsilon: Fraction = Fraction(1)
    day: int = 100_000_000
    rho: int = 72_000_000
    attempts: int = 2
    members: int = 3
    malicious: int = 1
    honest: int = 2
    slot_seconds: int = 60

    def check(self, a_list: MembershipList) -> None:
        terms = a_list.params.terms
        require(a_list.gateway.id in self.gateways, "gateway")
        require(self.lo <= terms["lo"] and terms["hi"] <= self.hi, "range")
        require(a_list.params.epsilon <= self.epsilon, "epsilon")
        require(a_list.params.scale >= self.scale, "noise_scale")
        require(terms["day_micro_rho"] <= self.rho, "day_rho")
        require(terms["day_micro_rho"] > 0 or a_list.params.plain_day <= self.day, "day_epsilon")
        require(terms["attempts"] <= self.attempts, "attempts")
        require(terms["scheme"] == COMMITTEE or terms["partners"] == 0, "partial_masks")
        require(terms["slot_seconds"] >= self.slot_seconds, "slot_too_short")
        require(a_list.params.members >= self.members, "too_few_members")
        require(terms["max_malicious"] >= self.malicious, "too_few_malicious")
        require(a_list.params.honest >= self.honest, "too_few_honest")


# On which channel requests and retries travel.
RECOVERY_CHANNELS = {2: "recovery", 7: "retry"}


def step(t: int) -> int:
    """By how much T may fall at a time."""
    return max(1, t // 10)


@dataclass
class Member:
    """The part of a meter that accepts lists and answers requests (8 and 9)."""

    id: str
    identity_public: bytes
    agreement_public: bytes
    enrolment: bytes  # its newest
    cluster: str
    authorities: Authorities
    policy: Policy
    size: int | None = None  # how many meters its own certificate says that the cluster has
    newest: tuple[int, bytes] | None = None  # epoch and hash of the last accepted list
    protection: tuple[int, int] | None = None  # the T that protected it, and when it last did
    slot: int | None = None  # the slot it has sent a reading in, under this list
    the_list: MembershipList | None = None
    attempt: int = 0
    opened: bytes | None = None  # the payload of the retry that opened this attempt
    answered: bytes | None = None  # the payload of the request it has answered in this attempt
    mark: tuple[int, int] = (0, 0)  # the end of the last slot, and the attempt, that it has answered as a holder

    def consider(self, topic: str, data: bytes, now: int) -> None:
        headers = f"dream/v1/{self.cluster}/membership"
        require(topic in (headers, f"{headers}/full"), "topic/unknown_channel")
        if data == b"":
            return  # a list that was erased says nothing
        read = read_short_list if topic == headers else read_list
        with inside("list"):
            a_list = read(data, self.cluster, self.authorities)
        if a_list is None:
            return  # the whole list is needed
        with inside("policy"):
            self.policy.check(a_list)
        fields, params = a_list.fields, a_list.params
        require(params.starts(fields["from_slot"]) <= now + 2 * 86_400, "too_far_ahead")
        newest = (fields["epoch"], a_list.hash)
        if newest == self.newest:
            self.the_list = a_list if a_list.is_full else self.the_list
            return
        if self.newest is not None:
            require(fields["epoch"] != self.newest[0], "two_lists_of_an_epoch")
            require(fields["epoch"] > self.newest[0], "stale_epoch")
            require(not denies(fields, *self.newest), "broken_chain")
        protection = self.protected(params.terms["max_malicious"], now)
        require(now < params.starts(fields["to_slot"] + 2), "list_over")
        index = a_list.index(self.id)
        if index is None:
            require(not a_list.is_full and sha256(self.enrolment)[:8] in a_list.digests, "not_listed")
        else:
            require(a_list.members[index].identity.key == self.identity_public, "not_listed")
            require(a_list.members[index].fields["agreement"] == self.agreement_public, "record_lost")
        self.newest, self.the_list, self.protection = newest, a_list, protection

    def protected(self, malicious: int, now: int) -> tuple[int, int]:
        """T looks back: what will have protected this meter after a list with this T."""
        if self.protection is None:
            return malicious, now
        t, since = self.protection
        while t > 1 and now - since >= 30 * 86_400:
            t, since = t - step(t), since + 30 * 86_400
        if malicious < t - step(t):
            require(self.size is not None and 10 * malicious >= self.size, "protection_falls")
            return malicious, now
        return (malicious, now) if malicious >= t else (t, since)

    @property
    def holds(self) -> bool:
        """Whether it answers as a holder: it must have the whole list."""
        return self.the_list.is_full and self.the_list.has_holder(self.id)

    def recover(self, topic: str, data: bytes, now: int) -> None:
        """Answers a request, or opens the attempt that a retry names."""
        envelope = Envelope.sign1(data)
        kind, message = read_payload(envelope.content, 2, 7)
        require(topic == f"dream/v1/{self.cluster}/{RECOVERY_CHANNELS[kind]}", "topic/unknown_channel")
        fields = self.the_list.fields
        covered = self.holds and fields["from_slot"] <= message["slot"] <= fields["to_slot"]
        require(message["slot"] == self.slot or covered, "unknown_slot")
        envelope.check_signature(self.the_list.gateway.key, topic)
        require(message["list"] == self.the_list.hash, "other_list")
        if kind == 7:
            self.retry(message, envelope.content, now)
        elif self.the_list.params.terms["scheme"] == COMMITTEE:
            self.answer_as_holder(message, envelope.content, now)
        else:
            self.answer(message, envelope.content)

    def answer_as_holder(self, request: dict[str, Any], content: bytes, now: int) -> None:
        """By section 4a."""
        require(self.holds, "not_a_holder")
        params, slot = self.the_list.params, request["slot"]
        ends = params.starts(slot + 1)
        require(ends <= now, "slot_not_over")
        require(now < params.starts(slot + 2), "slot_over")
        require(request["attempt"] < params.terms["attempts"], "too_many_attempts")
        mark = (ends, request["attempt"])
        if mark <= self.mark:
            require(self.answered is not None, "already_answered")
            require(content == self.answered, "second_request")
            return
        missing = members_of(params.members, request["missing"])
        require(len(missing) <= params.terms["max_missing"], "too_many_missing")
        self.mark, self.answered = mark, content

    def answer(self, request: dict[str, Any], content: bytes) -> None:
        require(request["attempt"] == self.attempt, "other_attempt")
        if self.answered is not None:
            require(content == self.answered, "second_request")
            return
        missing = members_of(len(self.the_list.members), request["missing"])
        require(len(missing) <= self.the_list.params.terms["max_missing"], "too_many_missing")
        require(self.the_list.index(self.id) not in missing, "names_this_meter")
        self.answered = content

    def retry(self, retry: dict[str, Any], content: bytes, now: int) -> None:
        if retry["attempt"] == self.attempt:
            require(content == self.opened, "second_retry")
            return
        require(retry["attempt"] > self.attempt, "attempt_not_above")
        most = min(self.the_list.params.terms["attempts"], self.policy.attempts)
        require(retry["attempt"] < most, "too_many_attempts")
        require(now < retry["deadline"], "retry_over")
        self.attempt, self.opened, self.answered = retry["attempt"], content, None


# ---- 9. Evidence against a gateway -----------------------------------------------------------------------------------


def proven(evidence: dict[str, Any], authorities: Authorities) -> tuple[str, str]:
    """Which gateway has contradicted itself, and in what: its requests, retries, lists, or their chain."""
    certificate, messages = evidence["certificate"], (evidence["first"], evidence["second"])
    if certificate == b"":
        return between_headers(evidence["cluster"], messages, authorities)
    gateway = read_gateway(certificate, authorities)
    read = []
    for data in messages:
        envelope = Envelope.sign1(data)
        kind, message = read_payload(envelope.content, 2, 7)
        envelope.check_signature(gateway.key, f"dream/v1/{evidence['cluster']}/{RECOVERY_CHANNELS[kind]}")
        read.append((kind, message))
    (kind, first), (other_kind, second) = read
    require(kind == other_kind and first != second, "no_contradiction")
    require(all(first[name] == second[name] for name in ("list", "slot", "attempt")), "no_contradiction")
    return gateway.id, "requests" if kind == 2 else "retries"


def between_headers(cluster: str, messages: tuple[bytes, bytes], authorities: Authorities) -> tuple[str, str]:
    read = []
    for data in messages:
        envelope, der = Envelope.certified(data)
        _, header = read_payload(envelope.content, 10)
        gateway = read_gateway(der, authorities)
        envelope.check_signature(gateway.key, f"dream/v1/{cluster}/membership")
        require(header["cluster"] == cluster and header["certificate"] == sha256(der), "no_contradiction")
        read.append((header["epoch"], sha256(envelope.content), gateway.id, header))
    require(read[0][2] == read[1][2], "two_gateways")
    (epoch, list_hash, gateway_id, _), (later_epoch, later_hash, _, later) = sorted(read, key=lambda one: one[0])
    require(list_hash != later_hash, "no_contradiction")
    if epoch == later_epoch:
        return gateway_id, "lists"
    require(denies(later, epoch, list_hash), "no_contradiction")
    return gateway_id, "chain"


def read_gateway(der: bytes, authorities: Authorities) -> Identity:
    with inside("certificate"):
        return read_certificate(der, "gateway", authorities)


# ---- The vectors -----------------------------------------------------------------------------------------------------

Case = dict[str, Any]


class Mismatch(Exception):
    """A vector says something else than this implementation."""


def same(what: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        raise Mismatch(f"{what}: {show(ours)} here, {show(theirs)} in the vector")


def show(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def word(text: str) -> int:
    same("length of a number", len(text), 16)
    return int(text, 16)


def load(name: str) -> Case:
    return json.loads((FOLDER / name).read_text())


def check_pair(case: Case) -> None:
    own, other = raw(case["own_agreement_private"]), raw(case["other_agreement_private"])
    same("own public key", x25519_public(own), raw(case["own_agreement_public"]))
    same("other public key", x25519_public(other), raw(case["other_agreement_public"]))
    shared = x25519(own, raw(case["other_agreement_public"]))
    same("X25519", shared, raw(case["x25519"]))
    same("X25519 from the other end", shared, x25519(other, raw(case["own_agreement_public"])))
    key = pair_key(raw(case["list_hash"]), shared, case["cluster"], case["own_id"], case["other_id"])
    same("K_ij", key, raw(case["pair_key"]))


def check_gateway_keys(case: Case) -> None:
    own, gateway = raw(case["agreement_private"]), raw(case["gateway_agreement_private"])
    same("gateway's public key", x25519_public(gateway), raw(case["gateway_agreement_public"]))
    shared = x25519(gateway, x25519_public(own))
    same("X25519", shared, raw(case["x25519"]))
    keys = gateway_keys(raw(case["list_hash"]), shared, case["cluster"], case["id"])
    same("S_i and A_i", keys, (raw(case["stream_key"]), raw(case["mac_key"])))


def check_public_key(case: Case) -> None:
    public = raw(case["public"])
    same("canonical form", canonical_x25519(public), raw(case["canonical"]))
    same("small order", "yes" if has_small_order(public) else "no", case["small_order"])


def check_block(case: Case) -> None:
    at = raw(case["pair_key"]), case["slot"], case["attempt"]
    same("mask", mask(*at), word(case["mask"]))
    same("selection", selection(*at), word(case["selection"]))


def check_threshold(case: Case) -> None:
    ours = threshold(case["members"], case["w"])
    same("threshold", ours, None if case["threshold"] is None else word(case["threshold"]))


def check_sums(case: Case) -> None:
    slot, attempt, members = case["slot"], case["attempt"], case["members"]
    limit = threshold(len(members), case["w"])
    missing = members_of(len(members), raw(case["missing"]))
    total = 0
    for own, member in enumerate(members):
        keys = [None if key is None else raw(key) for key in member["pair_keys"]]
        for other, key in enumerate(keys):
            same("pair key from the other end", members[other]["pair_keys"][own], key and key.hex())
        ours = mask_sum(own, keys, limit, slot, attempt)
        revealed = mask_sum(own, keys, limit, slot, attempt, missing)
        same(f"sum of member {own}", ours, word(member["sum"]))
        same(f"sum over the missing of member {own}", revealed, word(member["sum_over_missing"]))
        if own not in missing:
            total += ours - revealed
    same("sum of what is left", total % WORD, 0)


def check_stream(case: Case) -> None:
    same("K'", stream(raw(case["stream_key"]), case["slot"], case["attempt"]), word(case["stream"]))


def check_secret(case: Case) -> None:
    y = int.from_bytes(raw(case["y"]), "big", signed=True)
    ours = secret(raw(case["self_key"]), raw(case["list_hash"]), case["slot"], case["attempt"], y, raw(case["r"]))
    same("C", ours, word(case["secret"]))


def values_of(fields: Case) -> dict[str, Any]:
    """The fields of a message in a vector, where byte strings are in hex."""
    return {
        name: raw(value) if isinstance(value, str) and name != "cluster" else value for name, value in fields.items()
    }


def check_message(case: Case, world: Case) -> None:
    kind, topic = case["kind"], case["topic"]
    name, _ = PAYLOADS[kind]
    same("name of the kind", name, case["message"])
    values = values_of(case["fields"])
    content = payload(kind, values)
    same("payload", content, raw(case["payload"]))
    same("its hash", sha256(content), raw(case["payload_hash"]))
    same("payload, read", read_payload(content, kind), (kind, values))
    given = raw(case["envelope"])
    if "mac_key" in case:
        same("envelope", mac0(raw(case["mac_key"]), topic, content), given)
        envelope = Envelope.mac0(given)
        envelope.check_mac(raw(case["mac_key"]), topic)
    elif "certificate" in case:
        same("envelope", sign1(raw(case["identity_private"]), topic, content, raw(case["certificate"])), given)
        envelope, certificate = Envelope.certified(given)
        same("certificate", certificate, raw(case["certificate"]))
        same("its hash", sha256(certificate), values["certificate"])
        envelope.check_signature(raw(case["identity_public"]), topic)
    else:
        same("envelope", sign1(raw(case["identity_private"]), topic, content), given)
        envelope = Envelope.sign1(given)
        envelope.check_signature(raw(case["identity_public"]), topic)
    same("content", envelope.content, content)
    if "bitmap" in case:
        chosen = set(case["bitmap"]["indices"])
        same("bitmap", bitmap(case["bitmap"]["members"], chosen), values["missing"])
        same("bitmap, read", members_of(case["bitmap"]["members"], values["missing"]), chosen)
    if "full_list" in case:
        entries = [raw(entry) for entry in case["enrolments"]]
        check_header(values, entries, [], authorities_of(world))
        same("list", encode([given, entries]), raw(case["full_list"]))
    if values.get("evidence"):
        _, evidence = read_payload(values["evidence"], 11)
        shown = proven(evidence, authorities_of(world))
        same("what the evidence shows", shown, (world["gateway"]["id"], "requests"))


def check_header(
    values: dict[str, Any], entries: list[bytes], holders: list[bytes], authorities: Authorities
) -> None:
    """What follows from the entries of a list, the holders among them, and the authorities."""
    named = b"".join(sorted(fingerprint(authority) for authority in authorities.meters))
    [gateways] = authorities.gateways
    counts = {"members": len(entries), "holders": len(holders)}
    stated = {"meter_authorities": named, "gateway_authority": fingerprint(gateways)}
    ours = {**stated, "account": 2 if values["day_micro_rho"] else 0, **counts, **hashes_of(entries, holders)}
    same("header", {name: values[name] for name in ours}, ours)


def check_identity(case: Case) -> x509.Certificate:
    public = Ed25519PrivateKey.from_private_bytes(raw(case["identity_private"])).public_key().public_bytes_raw()
    same("Ed25519 public key", public, raw(case["identity_public"]))
    certificate = x509.load_der_x509_certificate(raw(case["certificate"]))
    same("the certificate's key", certificate.public_key().public_bytes_raw(), public)
    return certificate


def authorities_of(world: Case) -> Authorities:
    if "meter_authorities" in world:
        *meters, gateways = map(loaded, [*world["meter_authorities"], world["gateway_authority"]])
    else:
        *meters, gateways = check_identity(world["meter_authority"]), check_identity(world["gateway_authority"])
    same("the authorities' signatures", all(is_issued_by(each, each) for each in [*meters, gateways]), True)
    return Authorities(tuple(meters), (gateways,))


def loaded(certificate: str) -> x509.Certificate:
    return x509.load_der_x509_certificate(raw(certificate))


def check_membership(world: Case) -> None:
    cluster, gateway, the_list = world["cluster"], world["gateway"], world["list"]
    authorities = authorities_of(world)
    check_identity(gateway)
    same("gateway's X25519 key", x25519_public(raw(gateway["agreement_private"])), raw(gateway["agreement_public"]))
    for meter in world["meters"]:
        check_enrolled(meter, cluster, authorities)
    whole, _ = check_list(world, the_list, [])
    for meter in world["meters"]:
        member, epoch = member_of(world, meter, authorities), the_list["fields"]["epoch"]
        for topic in (the_list["topic"], the_list["header_topic"]):
            member.consider(topic, b"", epoch)
        same("accepted of nothing", member.newest, None)
        member.consider(the_list["topic"], whole, epoch)
        same("accepted", member.newest, (epoch, raw(the_list["list_hash"])))
    check_pairs(world)


def check_list(world: Case, the_list: Case, holders: list[str]) -> tuple[bytes, bytes]:
    """Makes a list anew, in both its forms."""
    cluster, gateway, authorities = world["cluster"], world["gateway"], authorities_of(world)
    values, entries = values_of(the_list["fields"]), [raw(meter["enrolment"]["envelope"]) for meter in world["meters"]]
    held = [raw(meter["enrolment"]["envelope"]) for meter in world["meters"] if meter["id"] in holders]
    check_header(values, entries, held, authorities)
    same("list's cluster", values["cluster"], cluster)
    same("list's certificate", values["certificate"], sha256(raw(gateway["certificate"])))
    same("list's gateway", values["gateway"], raw(gateway["agreement_public"]))
    content = payload(10, values)
    same("header's payload", content, raw(the_list["payload"]))
    same("LH", sha256(content), raw(the_list["list_hash"]))
    same("header's topic", f"dream/v1/{cluster}/membership", the_list["header_topic"])
    same("list's topic", f"dream/v1/{cluster}/membership/full", the_list["topic"])
    made = sign1(raw(gateway["identity_private"]), the_list["header_topic"], content, raw(gateway["certificate"]))
    same("header", made, raw(the_list["envelope"]))
    whole = encode([made, entries])
    same("list", whole, raw(the_list["full_list"]))
    verified = read_list(whole, cluster, authorities)
    same("gateway", verified.gateway.id, gateway["id"])
    same("members", [m.identity.id for m in verified.members], [meter["id"] for meter in world["meters"]])
    same("holders", [holder.identity.id for holder in verified.holders], holders)
    short = encode([made, held, digests_of(entries)] if verified.params.draws else [made, [], b""])
    return whole, short


def check_committee(world: Case) -> None:
    """Two lists of one cluster with a committee."""
    authorities, gateway = authorities_of(world), world["gateway"]
    check_identity(gateway)
    same("gateway's X25519 key", x25519_public(raw(gateway["agreement_private"])), raw(gateway["agreement_public"]))
    for meter in world["meters"]:
        check_enrolled(meter, world["cluster"], authorities)
    for the_list in (world["every"], world["drawn"]):
        whole, short = check_list(world, the_list, the_list["holder_ids"])
        same("short list", short, raw(the_list["short_list"]))
        fields = the_list["fields"]
        accepted = (fields["epoch"], raw(the_list["list_hash"]))
        f = colluding(fields["members"], fields["max_malicious"], fields["partners"])
        same("q", fields["quorum"], quorum(fields["holders"], f))
        for meter in world["meters"]:
            member, holder = member_of(world, meter, authorities), meter["id"] in the_list["holder_ids"]
            member.consider(the_list["header_topic"], short, fields["epoch"])
            draws = fields["partners"] > 0
            same("accepted of a short list", member.newest, accepted if draws else None)
            same("answers with a short list", draws and member.holds, False)
            if holder or not draws:
                member.consider(the_list["topic"], whole, fields["epoch"])
                same("accepted", member.newest, accepted)
                same("answers", member.holds, holder)


def check_pairs(world: Case) -> None:
    """Pairs of messages that are evidence, and of others that are almost."""
    gateway, meter, header = world["gateway"], world["meters"][0], values_of(world["list"]["fields"])
    values = {"list": bytes(32), "slot": 1, "attempt": 1, "missing": b"\x80", "deadline": 9}

    def recovery(kind: int, signer: Case = gateway, cluster: str = world["cluster"], **changed: Any) -> bytes:
        content = payload(kind, values | changed)
        return sign1(raw(signer["identity_private"]), f"dream/v1/{cluster}/{RECOVERY_CHANNELS[kind]}", content)

    def head(cluster: str = world["cluster"], **changed: Any) -> bytes:
        content, certificate = payload(10, header | changed), raw(gateway["certificate"])
        return sign1(raw(gateway["identity_private"]), f"dream/v1/{cluster}/membership", content, certificate)

    other = {"missing": b"\x40", "deadline": 10}
    for certified, first, second, expected in [
        (gateway, recovery(2), recovery(2, **other), "requests"),
        (gateway, recovery(7), recovery(7, **other), "retries"),
        (gateway, recovery(2), recovery(7), "no_contradiction"),
        (gateway, recovery(2), recovery(2, slot=2), "no_contradiction"),
        (gateway, recovery(2), recovery(2, attempt=2), "no_contradiction"),
        (gateway, recovery(2), recovery(2, list=bytes([1] * 32)), "no_contradiction"),
        (gateway, recovery(2), recovery(2, cluster="south", **other), "bad_signature"),
        (gateway, recovery(2), recovery(2, signer=meter, **other), "bad_signature"),
        (meter, recovery(2, signer=meter), recovery(2, signer=meter, **other), "certificate/wrong_authority"),
        (None, head(), head(to_slot=header["to_slot"] + 1), "lists"),
        (None, head(), head(certificate=bytes(32)), "no_contradiction"),
        (None, head(), head(cluster="south", to_slot=0), "bad_signature"),
    ]:
        certificate = b"" if certified is None else raw(certified["certificate"])
        same("what is shown", verdict(world, certificate, first, second), expected)


def check_enrolled(meter: Case, cluster: str, authorities: Authorities) -> None:
    check_identity(meter)
    same("X25519 public key", x25519_public(raw(meter["agreement_private"])), raw(meter["agreement_public"]))
    enrolment, certificate = meter["enrolment"], raw(meter["certificate"])
    same("certificate hash", sha256(certificate), raw(enrolment["certificate_hash"]))
    same("topic", f"dream/v1/{cluster}/enrol/{meter['id']}", enrolment["topic"])
    values = {name: enrolment[name] for name in ("not_before", "not_after", "seq", "holds")}
    values.update(cluster=cluster, certificate=sha256(certificate), agreement=raw(meter["agreement_public"]))
    content = payload(4, values)
    same("payload", content, raw(enrolment["payload"]))
    made = sign1(raw(meter["identity_private"]), enrolment["topic"], content, certificate)
    same("enrolment", made, raw(enrolment["envelope"]))
    read = read_enrolment(made, cluster, authorities)
    same("id", read.identity.id, meter["id"])
    same("role", read.identity.role, "meter")


def member_of(world: Case, meter: Case, authorities: Authorities) -> Member:
    size = read_certificate(raw(meter["certificate"]), "meter", authorities).size
    return Member(
        meter["id"],
        raw(meter["identity_public"]),
        raw(meter["agreement_public"]),
        raw(meter["enrolment"]["envelope"]),
        world["cluster"],
        authorities,
        Policy({world["gateway"]["id"]}),
        size,
    )


def check_slot(case: Case, world: Case) -> None:
    """A whole attempt, from the keys in membership.json to the sum."""
    cluster, slot, attempt = world["cluster"], case["slot"], case["attempt"]
    the_list = read_list(raw(world["list"]["full_list"]), cluster, authorities_of(world))
    terms, gateway = the_list.params.terms, world["gateway"]
    same("slot in the list", the_list.fields["from_slot"] <= slot <= the_list.fields["to_slot"], True)
    if "retry" in case:
        check_retry(case, world, the_list)

    ciphertexts, secrets, pair_keys = [], [], []
    for own, (meter, sent) in enumerate(zip(world["meters"], case["members"], strict=True)):
        private = raw(meter["agreement_private"])
        same("id", meter["id"], sent["id"])
        shared = x25519(private, the_list.fields["gateway"])
        stream_key, mac_key = gateway_keys(the_list.hash, shared, cluster, meter["id"])
        same("S_i and A_i", (stream_key, mac_key), (raw(sent["stream_key"]), raw(sent["mac_key"])))
        keys = [
            None
            if other == own
            else pair_key(
                the_list.hash, x25519(private, member.fields["agreement"]), cluster, meter["id"], member.identity.id
            )
            for other, member in enumerate(the_list.members)
        ]
        x = min(max(sent["measured"], terms["lo"]), terms["hi"])
        y = x + sent["z"]
        c = secret(raw(meter["self_key"]), the_list.hash, slot, attempt, y, raw(sent["r"]))
        masks = mask_sum(own, keys, the_list.params.threshold, slot, attempt)
        k = stream(stream_key, slot, attempt)
        ct = (y + k + masks + c) % WORD
        same("x and y", (x, y), (sent["x"], sent["y"]))
        same("C", c, word(sent["secret"]))
        same("K'", k, word(sent["stream"]))
        same("sum of masks", masks, word(sent["mask_sum"]))
        same("ct", ct, word(sent["ct"]))
        values = {"list": the_list.hash[:8], "slot": slot, "attempt": attempt, "ct": ct.to_bytes(8, "big")}
        same("payload", payload(1, values), raw(sent["payload"]))
        topic = f"dream/v1/{cluster}/reading/{meter['id']}"
        same("topic", topic, sent["topic"])
        same("reading", mac0(mac_key, topic, payload(1, values)), raw(sent["envelope"]))
        ciphertexts.append((ct - k) % WORD)
        secrets.append(c)
        pair_keys.append(keys)

    known = {"yes", "no", "left out"}
    same("whether readings arrived", {sent["arrived"] for sent in case["members"]} <= known, True)
    missing = {index for index, sent in enumerate(case["members"]) if sent["arrived"] != "yes"}
    request, topic = case["request"], f"dream/v1/{cluster}/recovery"
    values = {
        "list": the_list.hash,
        "slot": slot,
        "attempt": attempt,
        "missing": bitmap(len(the_list.members), missing),
        "deadline": request["deadline"],
    }
    asked = payload(2, values)
    same("missing", values["missing"], raw(request["missing"]))
    same("request's topic", topic, request["topic"])
    same("request's payload", asked, raw(request["payload"]))
    same("its hash", sha256(asked), raw(request["payload_hash"]))
    same("request", sign1(raw(gateway["identity_private"]), topic, asked), raw(request["envelope"]))

    responders = [index for index in range(len(the_list.members)) if index not in missing]
    result = 0
    for index, sent in zip(responders, case["reveals"], strict=True):
        meter = world["meters"][index]
        same("id", meter["id"], sent["id"])
        member = member_of(world, meter, authorities_of(world))
        member.slot, member.the_list, member.attempt = slot, the_list, attempt
        member.recover(topic, raw(request["envelope"]), request["deadline"])
        given_up = mask_sum(index, pair_keys[index], the_list.params.threshold, slot, attempt, missing)
        revealed = (secrets[index] + given_up) % WORD
        same("R", revealed, word(sent["revealed"]))
        values = {
            "list": the_list.hash[:8],
            "slot": slot,
            "attempt": attempt,
            "revealed": revealed.to_bytes(8, "big"),
            "request": sha256(asked)[:8],
        }
        reveal_topic = f"dream/v1/{cluster}/reveal/{meter['id']}"
        mac_key = raw(case["members"][index]["mac_key"])
        same("topic", reveal_topic, sent["topic"])
        same("payload", payload(3, values), raw(sent["payload"]))
        same("reveal", mac0(mac_key, reveal_topic, payload(3, values)), raw(sent["envelope"]))
        result += ciphertexts[index] - revealed

    result %= WORD
    result -= WORD if result >= WORD // 2 else 0
    same("sum", result, case["result"]["watts"])
    same("responders", len(responders), case["result"]["responders"])
    same("what it should be", result, sum(case["members"][index]["y"] for index in responders))
    least, most = the_list.params.plausible()
    same("plausible", least <= result <= most, True)


def check_retry(case: Case, world: Case, the_list: MembershipList) -> None:
    retry, topic = case["retry"], f"dream/v1/{world['cluster']}/retry"
    values = {"list": the_list.hash, "slot": case["slot"], "attempt": case["attempt"], "deadline": retry["deadline"]}
    content = payload(7, values)
    same("retry's topic", topic, retry["topic"])
    same("retry's payload", content, raw(retry["payload"]))
    same("retry", sign1(raw(world["gateway"]["identity_private"]), topic, content), raw(retry["envelope"]))
    member = member_of(world, world["meters"][0], authorities_of(world))
    member.slot, member.the_list = case["slot"], the_list
    member.recover(topic, raw(retry["envelope"]), retry["deadline"] - 1)
    same("attempt", member.attempt, case["attempt"])


def check_accepted(case: Case) -> None:
    params = Params(case["members"], case["terms"])
    same("n", params.honest, case["n"])
    same("D", params.sensitivity, case["sensitivity"])
    same("lambda", [params.scale.numerator, params.scale.denominator], case["lambda"])
    same("charge", params.charge, case["charge_micro_epsilon"])
    same("cost of a day without rho", params.plain_day, case["plain_day_micro_epsilon"])
    same("rms of a day", params.day_rms, case["day_rms_watts"])
    same("plausible", params.plausible(), (case["least_plausible"], case["most_plausible"]))
    same("threshold", params.threshold, None if case["threshold"] is None else word(case["threshold"]))
    same("closing is given", case["closing"] is None, params.threshold is None)
    if case["closing"] is not None:
        same("closing is close", abs(params.closing - float(case["closing"])) < 1e-5, True)
    same("f", params.colluding, case["f"])
    same("draws below", params.drawn_below, None if case["drawn_below"] is None else word(case["drawn_below"]))


def check_day(case: Case) -> None:
    days: dict[int, Day] = {}
    for attempt in case["attempts"]:
        scale = Fraction(*attempt["lambda"])
        same("lambda", (attempt["hi"] - attempt["lo"]) / Fraction(*attempt["epsilon"]), scale)
        x = min(max(attempt["measured"], attempt["lo"]), attempt["hi"])
        same("x", x, attempt["x"])
        number = attempt["slot"] * case["slot_seconds"] // 86_400
        last = ((number + 1) * 86_400 - 1) // case["slot_seconds"]
        day, weight, slots = days.setdefault(number, Day()), 2 if attempt["lo"] < 0 else 1, last - attempt["slot"] + 1
        same("reported", day.report(attempt["day_micro_rho"], weight, scale, slots, x), attempt["reported"])
        same("never more than rho", day.used <= day.reserved * UNITS, True)


def check_refused(case: Case) -> None:
    try:
        Params(case["members"], case["terms"])
    except Refused as refused:
        same("refusal", str(refused), case["refusal"])
    else:
        raise Mismatch(f"accepted, the vector says {case['refusal']}")


def check_colluding(case: Case) -> None:
    same("f", colluding(case["members"], case["max_malicious"], case["partners"]), case["f"])


def check_dealt(case: Case) -> None:
    up = {"yes": True, "no": False}[case["up"]]
    same("block", block(4 if up else 5, case["attempt"], case["slot"]), raw(case["block"]))
    same("P(i,l)", dealt(raw(case["pair_key"]), up, case["slot"], case["attempt"]), word(case["dealt"]))


def check_own(case: Case) -> None:
    ours = dealt_to_itself(raw(case["self_key"]), raw(case["list_hash"]), case["slot"], case["attempt"])
    same("P(i,i)", ours, word(case["dealt"]))
    same("reduced", int(case["hmac"], 16) % P, word(case["dealt"]))


def check_committee_stream(case: Case) -> None:
    same("keystream", keystream(raw(case["stream_key"]), case["slot"], case["attempt"], 16), raw(case["keystream"]))
    same("K'", committee_stream(raw(case["stream_key"]), case["slot"], case["attempt"]), word(case["stream"]))


def check_draw(case: Case) -> None:
    made = hmac.digest(raw(case["draw_key"]), joined(b"dream/1 draw", case["meter"].encode()), "sha256")[:16]
    same("draw value", made, raw(case["draw"]))
    same("name in a certificate", f"urn:dream:draw:{made.hex()}", case["urn"])
    drawn, limit = sigma(made, case["day"]), drawn_below(case["members"], case["k"])
    same("sigma", drawn, word(case["sigma"]))
    same("threshold", limit, word(case["threshold"]))
    same("holder", "yes" if drawn < limit else "no", case["holder"])


def check_dealing(case: Case) -> None:
    secret, corrections = deal([word(number) for number in case["dealt"]], case["needed"])
    same("C", secret, word(case["secret"]))
    same("corrections", corrections, [word(number) for number in case["corrections"]])


def check_decoding(case: Case) -> None:
    points = [(answer["point"], word(answer["value"])) for answer in case["answers"]]
    try:
        secret, wrong = decode_answers(case["needed"], points)
    except Refused as refused:
        same("refusal", str(refused), case["refusal"])
        return
    same("refusal", None, case["refusal"])
    same("secret", secret, word(case["secret"]))
    same("wrong", wrong, case["wrong"])


def check_choice(case: Case) -> None:
    draws = [int.from_bytes(sha256(f"willing {index}".encode())[:8], "big") for index in range(case["willing"])]
    ours = chosen(case["members"], case["max_malicious"], draws)
    same("refusal", None if ours else "no_committee", case["refusal"])
    if ours:
        same("choice", ours, {name: case[name] for name in ours})


def check_committee_slot(case: Case, world: Case) -> None:
    """A whole attempt with a committee, from the keys in committee.json to the sum."""
    cluster, slot, attempt = world["cluster"], case["slot"], case["attempt"]
    authorities = authorities_of(world)
    the_list = read_list(raw(world[case["list"]]["full_list"]), cluster, authorities)
    terms, gateway = the_list.params.terms, world["gateway"]
    holders, needed = [holder.identity.id for holder in the_list.holders], terms["quorum"]
    same("slot in the list", the_list.fields["from_slot"] <= slot <= the_list.fields["to_slot"], True)
    public = {member.identity.id: member.fields["agreement"] for member in the_list.members}

    def deals(meter: Case, holder: str) -> int:
        own = meter["id"]
        if own == holder:
            return dealt_to_itself(raw(meter["self_key"]), the_list.hash, slot, attempt)
        shared = x25519(raw(meter["agreement_private"]), public[holder])
        return dealt(pair_key(the_list.hash, shared, cluster, own, holder), own < holder, slot, attempt)

    numbers, unstreamed, corrections, mac_keys = [], [], [], []
    for meter, sent in zip(world["meters"], case["members"], strict=True):
        same("id", meter["id"], sent["id"])
        shared = x25519(raw(meter["agreement_private"]), the_list.fields["gateway"])
        stream_key, mac_key = gateway_keys(the_list.hash, shared, cluster, meter["id"])
        same("S_i and A_i", (stream_key, mac_key), (raw(sent["stream_key"]), raw(sent["mac_key"])))
        own = [deals(meter, holder) for holder in holders]
        same("dealt", own, [word(number) for number in sent["dealt"]])
        secret, own_corrections = deal(own, needed)
        same("C", secret, word(sent["secret"]))
        x = min(max(sent["measured"], terms["lo"]), terms["hi"])
        y = x + sent["z"]
        same("x and y", (x, y), (sent["x"], sent["y"]))
        k = committee_stream(stream_key, slot, attempt)
        same("K'", k, word(sent["stream"]))
        ct = (y + k + secret) % P
        same("ct", ct, word(sent["ct"]))
        joint = b"".join(number.to_bytes(8, "big") for number in own_corrections)
        same("corrections", joint, raw(sent["corrections"]))
        values = {"list": the_list.hash[:8], "slot": slot, "attempt": attempt, "ct": ct.to_bytes(8, "big")}
        content = payload(8, values | {"corrections": joint})
        same("payload", content, raw(sent["payload"]))
        topic = f"dream/v1/{cluster}/reading/{meter['id']}"
        same("topic", topic, sent["topic"])
        same("reading", mac0(mac_key, topic, content), raw(sent["envelope"]))
        numbers.append(own)
        unstreamed.append(ct - k)
        corrections.append(own_corrections)
        mac_keys.append(mac_key)

    same("what arrived", {sent["arrived"] for sent in [*case["members"], *case["answers"]]} <= {"yes", "no"}, True)
    missing = {index for index, sent in enumerate(case["members"]) if sent["arrived"] == "no"}
    counted = [index for index in range(len(the_list.members)) if index not in missing]
    request, topic = case["request"], f"dream/v1/{cluster}/recovery"
    values = {
        "list": the_list.hash,
        "slot": slot,
        "attempt": attempt,
        "missing": bitmap(len(the_list.members), missing),
        "deadline": request["deadline"],
    }
    asked = payload(2, values)
    same("missing", values["missing"], raw(request["missing"]))
    same("request's topic", topic, request["topic"])
    same("request's payload", asked, raw(request["payload"]))
    same("its hash", sha256(asked), raw(request["payload_hash"]))
    same("request", sign1(raw(gateway["identity_private"]), topic, asked), raw(request["envelope"]))

    points = []
    for place, (holder, sent) in enumerate(zip(holders, case["answers"], strict=True)):
        same("holder", holder, sent["id"])
        index = the_list.index(holder)
        member = member_of(world, world["meters"][index], authorities)
        member.the_list = the_list
        member.recover(topic, raw(request["envelope"]), request["deadline"])
        same("V", sum(numbers[index][place] for index in counted) % P, word(sent["sum"]))
        values = {
            "list": the_list.hash[:8],
            "slot": slot,
            "attempt": attempt,
            "sum": raw(sent["sent"]),
            "request": sha256(asked)[:8],
        }
        answer_topic = f"dream/v1/{cluster}/reveal/{holder}"
        same("topic", answer_topic, sent["topic"])
        same("payload", payload(9, values), raw(sent["payload"]))
        same("answer", mac0(mac_keys[index], answer_topic, payload(9, values)), raw(sent["envelope"]))
        if sent["arrived"] == "yes":
            corrected = 0 if place < needed else sum(corrections[index][place - needed] for index in counted)
            points.append((place + 1, (word(sent["sent"]) + corrected) % P))
    same("W", points, [(point["point"], word(point["value"])) for point in case["points"]])

    secret, wrong = decode_answers(needed, points)
    same("G(0)", secret, word(case["secret"]))
    same("wrong", [holders[point - 1] for point in wrong], case["wrong"])
    same("agreeing", len(points) - len(wrong), case["agreeing"])
    same("wrong answers", [sent["id"] for sent in case["answers"] if sent["sent"] != sent["sum"]], case["wrong"])
    result = (sum(unstreamed[index] for index in counted) - secret) % P
    result -= P if result > P // 2 else 0
    same("sum", result, case["result"]["watts"])
    same("responders", len(counted), case["result"]["responders"])
    same("what it should be", result, sum(case["members"][index]["y"] for index in counted))
    least, most = the_list.params.plausible()
    same("plausible", least <= result <= most, True)


def check_probabilities(case: Case) -> None:
    scale = Fraction(*case["lambda"])
    for item in case["probabilities"]:
        ours = share_probability(case["n"], scale, item["d"])
        close = math.isclose(ours, float(item["p"]), rel_tol=2e-9)
        same(f"P(z = {item['d']}) is close to {ours:.9e}", close, True)


def check_shares(case: Case) -> None:
    """The draws themselves bind only the implementation that made them; they must look like draws, no more."""
    same("shares are whole numbers", all(type(share) is int for share in case["shares"]), True)


def check_broken(case: Case, world: Case, judge: Callable[[Case], None]) -> None:
    try:
        judge(case)
    except Refused as refused:
        same("refusal", str(refused), case["refusal"])
    else:
        same("refusal", None, case["refusal"])
    if "before" in case and case["refusal"] in CONTRADICTIONS:
        check_evidence(case, world)


# What two messages of a gateway show to anyone, where a member that has seen the first accepts or refuses the second.
CONTRADICTIONS = {
    None: "no_contradiction",
    "second_request": "requests",
    "second_retry": "retries",
    "two_lists_of_an_epoch": "lists",
    "broken_chain": "chain",
}


def check_evidence(case: Case, world: Case) -> None:
    """Whether the messages are evidence, in either order, if and only if the member saw a contradiction."""
    messages = [raw(case["before"][-1]["bytes"]), raw(case["bytes"])]
    certificate = raw(world["gateway"]["certificate"])
    if case["judge"] in ("list", "short list"):
        certificate, messages = b"", [decode(data)[0] for data in messages]
    for first, second in (messages, reversed(messages)):
        same("what is shown", verdict(world, certificate, first, second), CONTRADICTIONS[case["refusal"]])


def verdict(world: Case, certificate: bytes, first: bytes, second: bytes) -> str:
    """What evidence shows against the gateway, or why it shows nothing."""
    evidence = {"cluster": world["cluster"], "certificate": certificate, "first": first, "second": second}
    try:
        _, evidence = read_payload(payload(11, evidence), 11)
        gateway, shown = proven(evidence, authorities_of(world))
    except Refused as refused:
        return str(refused)
    same("against whom", gateway, world["gateway"]["id"])
    return shown


def judge(case: Case, world: Case, slot: Case) -> None:
    """Accepts a message or raises `Refused`, as its receiver would."""
    cluster, first = world["cluster"], world["meters"][0]
    meters, gateways = (loaded(world[f"{role}_authority"]["certificate"]) for role in ("meter", "gateway"))
    authorities = Authorities((meters,), (gateways,))
    kind, topic, data = case["judge"], case.get("topic", ""), raw(case["bytes"])
    before = messages_before(case)
    if kind in ("reading", "reveal"):
        envelope = Envelope.mac0(data)
        read_payload(envelope.content, 1 if kind == "reading" else 3)
        envelope.check_mac(raw(slot["members"][0]["mac_key"]), topic)
    elif kind == "status":
        envelope = Envelope.sign1(data)
        _, status = read_payload(envelope.content, 6)
        require(status["cluster"] == cluster, "bad_signature")
        envelope.check_signature(raw(first["identity_public"]), topic)
        if status["code"] == EQUIVOCATION:
            with inside("evidence"):
                _, evidence = read_payload(status["evidence"], 11)
                require(evidence["cluster"] == cluster, "no_contradiction")
                proven(evidence, authorities)
    elif kind == "enrolment":
        enrolment = read_enrolment(data, cluster, authorities)
        require(topic == f"dream/v1/{cluster}/enrol/{enrolment.identity.id}", "bad_signature")
    elif kind == "certificate":
        read_certificate(data, "meter", authorities)
    elif kind == "list":
        member, now = member_of(world, first, authorities), first["enrolment"]["seq"] + 6
        for earlier in before:
            member.consider(*earlier, now)
        member.consider(topic, data, now)
    elif kind == "recovery":
        member = member_of(world, first, authorities)
        member.the_list = read_list(raw(world["list"]["full_list"]), cluster, authorities)
        member.slot = slot["slot"]
        now = member.the_list.params.starts(slot["slot"] + 1) + 61
        for earlier in before:
            member.recover(*earlier, now)
        member.recover(topic, data, now)
    else:
        raise Mismatch(f"nobody judges {kind}")


def messages_before(case: Case) -> list[tuple[str, bytes]]:
    return [(earlier["topic"], raw(earlier["bytes"])) for earlier in case.get("before", [])]


@dataclass
class Collector:
    """The part of a gateway that takes the readings and answers of one attempt of a slot with a committee."""

    the_list: MembershipList
    slot: int
    mac_keys: dict[str, bytes]
    request: bytes | None = None  # the payload of what was asked
    taken: dict[str, dict[str, Any]] = field(default_factory=dict)  # by topic

    def take(self, topic: str, data: bytes) -> None:
        envelope = Envelope.mac0(data)
        *_, channel, meter = topic.split("/")
        kind, message = read_payload(envelope.content, *{"reading": (1, 8), "reveal": (3, 9)}[channel])
        require(message["slot"] == self.slot, "slot_not_open")
        require(message["list"] == self.the_list.hash[:8], "other_list")
        envelope.check_mac(self.mac_keys[meter], topic)
        require(message["attempt"] == 0, "other_attempt")
        require(kind in (8, 9), "other_scheme")
        terms = self.the_list.params.terms
        if kind == 8:
            require(len(message["corrections"]) == 8 * (terms["holders"] - terms["quorum"]), "corrections")
        else:
            require(self.the_list.has_holder(meter), "not_a_holder")
            require(self.request is not None, "not_asked")
            require(message["request"] == sha256(self.request)[:8], "other_request")
        known = self.taken.setdefault(topic, message)
        require(known is message, "duplicate" if known == message else "contradiction")


def judge_committee(case: Case, world: Case, asked: Case) -> None:
    """Accepts a message of the cluster in committee.json or raises `Refused`, as its receiver would."""
    kind, before, last = case["judge"], messages_before(case), (case["topic"], raw(case["bytes"]))
    cluster, authorities, meters = world["cluster"], authorities_of(world), world["meters"]
    if kind in ("list", "short list"):
        meter = meters[0] if kind == "list" else {meter["id"]: meter for meter in meters}["home-08"]
        member, now = member_of(world, meter, authorities), meter["enrolment"]["seq"] + 6
        for message in (*before, last):
            member.consider(*message, now)
        return
    name = "drawn" if kind == "recovery with a short list" else "every"
    the_list = read_list(raw(world[name]["full_list"]), cluster, authorities)
    slot = the_list.fields["from_slot"]
    ends = the_list.params.starts(slot + 1)
    if kind in ("dealt reading", "early answer", "answer"):
        gateway = raw(world["gateway"]["agreement_private"])
        shared = {meter["id"]: x25519(gateway, raw(meter["agreement_public"])) for meter in meters}
        mac_keys = {name: gateway_keys(the_list.hash, key, cluster, name)[1] for name, key in shared.items()}
        collector = Collector(the_list, slot, mac_keys, raw(asked["payload"]) if kind == "answer" else None)
        for message in (*before, last):
            collector.take(*message)
        return
    who, now = {
        "recovery": ("home-00", ends + 61),
        "recovery after the next slot": ("home-00", ends + 601),
        "recovery without the record of an answer": ("home-00", ends + 62),
        "recovery by a member": ("home-03", ends + 61),
        "recovery with a short list": (the_list.holders[0].identity.id, ends + 61),
    }[kind]
    member = member_of(world, {meter["id"]: meter for meter in meters}[who], authorities)
    member.the_list, member.slot = the_list, slot
    if name == "drawn":
        member.the_list = read_short_list(raw(world[name]["short_list"]), cluster, authorities)
    if kind == "recovery without the record of an answer":
        member.mark = (ends, 0)
    for message in (*before, last):
        member.recover(*message, now)


@dataclass
class Vector:
    """One case of a file, with the check it has to pass."""

    file: str
    case: Case
    check: Callable[[Case], None]

    def fails(self, case: Case) -> str | None:
        """Why a case does not pass."""
        try:
            self.check(case)
        except (Refused, Mismatch) as why:
            return f"{type(why).__name__.lower()}: {why}"
        except Exception as why:  # a vector may be wrong in any way
            return f"{type(why).__name__}: {why}"
        return None


def vectors() -> list[Vector]:
    found: list[Vector] = []

    def add(file: str, cases: list[Case], check: Callable[[Case], None]) -> None:
        found.extend(Vector(file, case, check) for case in cases)

    file = load("key_schedule.json")
    add("key_schedule.json", file["pairs"], check_pair)
    add("key_schedule.json", file["gateway"], check_gateway_keys)
    add("key_schedule.json", file["public_keys"], check_public_key)
    file = load("masks.json")
    add("masks.json", [*file["blocks"], file["far_slot"]], check_block)
    add("masks.json", file["thresholds"], check_threshold)
    add("masks.json", file["sums"], check_sums)
    file = load("stream_and_secret.json")
    add("stream_and_secret.json", file["stream"], check_stream)
    add("stream_and_secret.json", file["secret"], check_secret)
    world, slot, retry = load("membership.json"), load("slot.json"), load("retry.json")
    add("messages.json", load("messages.json")["messages"], lambda case: check_message(case, world))

    def check_world(case: Case) -> None:
        check_membership(case)
        check_slot(slot, case)

    add("membership.json", [world], check_world)
    add("slot.json", [slot], lambda case: check_slot(case, world))
    add("retry.json", [retry], lambda case: check_slot(case, world))
    file = load("noise.json")
    add("noise.json", file["shares"], check_shares)
    add("noise.json", file["probabilities"], check_probabilities)
    file = load("params.json")
    add("params.json", file["accepted"], check_accepted)
    add("params.json", file["refused"], check_refused)
    add("day.json", load("day.json")["cases"], check_day)
    add("params.json", file["colluding"], check_colluding)
    file = load("dealing.json")
    add("dealing.json", file["blocks"], check_dealt)
    add("dealing.json", file["own"], check_own)
    add("dealing.json", file["stream"], check_committee_stream)
    add("dealing.json", file["draws"], check_draw)
    add("dealing.json", file["dealings"], check_dealing)
    add("dealing.json", file["decodings"], check_decoding)
    add("dealing.json", file["choices"], check_choice)
    homes, slots = load("committee.json"), load("committee_slot.json")["slots"]

    def check_homes(case: Case) -> None:
        check_committee(case)
        for one in slots:
            check_committee_slot(one, case)

    add("committee.json", [homes], check_homes)
    add("committee_slot.json", slots, lambda case: check_committee_slot(case, homes))

    def check_pairwise(case: Case) -> None:
        check_broken(case, world, lambda case: judge(case, world, slot))

    def check_of_committee(case: Case) -> None:
        check_broken(case, homes, lambda case: judge_committee(case, homes, slots[0]["request"]))

    add("broken.json", load("broken.json")["cases"], check_pairwise)
    add("committee_broken.json", load("committee_broken.json")["cases"], check_of_committee)
    return found


# ---- The grammar -----------------------------------------------------------------------------------------------------

GRAMMAR = (FOLDER / "../../../docs/protocol.cddl").read_text()


@cache
def rule(name: str) -> pycddl.Schema:
    """A rule of docs/protocol.cddl. Where one item of an array is `bstr .cbor`, pycddl expects it of all of them. So byte
    strings are just that here; what is in them is compared with a rule of its own."""
    return pycddl.Schema(f"start = {name}\n" + re.sub(r"bstr \.cbor (\{[^}]*\}|[a-z0-9-]+)", "bstr", GRAMMAR))


def fits(name: str, data: bytes) -> bool:
    try:
        rule(name).validate_cbor(data)
    except pycddl.ValidationError:
        return False
    return True


def messages_and_rules() -> Iterator[tuple[str, bytes]]:
    """Everything in the vectors that travels or is signed, with its rule."""
    for case in load("messages.json")["messages"]:
        name = case["message"].replace(" ", "-")
        yield f"{name}-payload", raw(case["payload"])
        yield name, raw(case["envelope"])
        if case["fields"].get("evidence"):
            yield "evidence", raw(case["fields"]["evidence"])
    worlds = [(load("membership.json"), ["list"]), (load("committee.json"), ["every", "drawn"])]
    for world, names in worlds:
        for the_list in (world[name] for name in names):
            header, entries = raw(the_list["envelope"]), [raw(meter["enrolment"]["envelope"]) for meter in world["meters"]]
            yield "list-header-payload", raw(the_list["payload"])
            yield "full-list", encode([header, entries])
            yield "short-list", encode([header, entries[:3], digests_of(entries)])
            yield "short-list", encode([header, [], b""])


def check_grammar() -> int:
    """Compares the grammar with the vectors; returns how many disagree. To name a rule like one of the prelude's is an error."""
    pycddl.Schema(GRAMMAR)
    fitting = broken = wrong = 0
    for name, data in messages_and_rules():
        fitting += 1
        if not fits(name, data):
            wrong += 1
            print(f"  protocol.cddl: {name} does not fit {show(data)}")
        items = decode(data)
        places = [at for at, item in enumerate(items) if item != {}]  # pycddl takes anything for an empty map
        others = [[*items[:at], None, *items[at + 1 :]] for at in places] + [items[:-1], [*items, 0]]
        for other in others:
            broken += 1
            if fits(name, encode(other)):
                wrong += 1
                print(f"  protocol.cddl: {name} fits {show(encode(other))}")
    print(f"{'protocol.cddl':24} {fitting} fit, {broken} broken ones, {wrong} wrong")
    return wrong


# ---- 7. How large lists may be ---------------------------------------------------------------------------------------

PAGE = (FOLDER / "../../../docs/protocol.md").read_text()


def envelope_of(content: Any, certificate: int) -> bytes:
    """An envelope with a certificate of some length, no matter who signed it."""
    return encode([SIGN_HEADER, {X5CHAIN: bytes(certificate)}, encode(content), bytes(64)])


def largest_header(cluster: int, certificate: int, authorities: int) -> bytes:
    """Every number as long as it gets while times are below 2^32."""
    time, count, watts = 2**32 - 1, 10_000, 2**39
    ids = ["c" * cluster, time, time, bytes(32), bytes(32), bytes(32), bytes(32 * authorities), bytes(32)]
    windows = [time, time, 86_400, 86_399, 86_399]
    terms = [1, count, count, 2**64 - 1, 256, -watts, watts, 10**6, 10**6, 2, 2**40 - 1, 255, count, 256]
    return envelope_of([10, *ids, *windows, *terms, bytes(32), bytes(32), bytes(32)], certificate)


def largest_enrolment(cluster: int, certificate: int, holds: int) -> bytes:
    time = 2**32 - 1
    return envelope_of([4, "c" * cluster, bytes(32), bytes(32), time, time, time, holds], certificate)


def check_example() -> int:
    """Compares the draw that section 3 shows with ours; returns whether they differ."""
    shown = re.search(r"sigma, with draw value `000102\.\.\.0f` and day 20,691 \| `([0-9a-f]{16})`", PAGE)
    ours = sigma(bytes(range(16)), 20_691).to_bytes(8, "big").hex()
    wrong = shown is None or shown[1] != ours
    if wrong:
        print(f"  the draw in section 3 of protocol.md should be {ours}")
    return int(wrong)


def check_sizes() -> int:
    """Compares the bounds of section 7 with lists of many sizes; returns how many are larger, or far smaller than a bound."""
    pattern = r"\| (\d+) \+ c \+ L \|.*?\| (\d+) \+ 32 \*.*?N \* entry \+ (\d+) \|.*?8N \+ (\d+) \|"
    found = re.search(pattern, PAGE, re.DOTALL)
    if found is None:
        raise Mismatch("the sizes of section 7 are not where they were")
    entry_more, header_more, full_more, short_more = map(int, found.groups())
    tried = wrong = 0
    gaps: dict[str, int] = {}

    def compare(what: str, size: int, bound: int) -> None:
        nonlocal tried, wrong
        tried += 1
        gaps[what] = min(bound - size, gaps.get(what, bound))
        if size > bound:
            wrong += 1
            print(f"  sizes: {what} of {size} bytes, and the page allows {bound}")

    for cluster in (1, 23, 24, 64):
        for certificate in (200, 255, 256, 390, 4000):
            header_bounds = {}
            for authorities in (1, 7, 8, 16):
                header = encode(largest_header(cluster, certificate, authorities))
                header_bounds[authorities] = header_more + 32 * authorities + certificate + cluster
                compare("header", len(header), header_bounds[authorities])
            bound = entry_more + certificate + cluster
            for holds in (0, 23, 24, 255, 256, 10_000):
                enrolment = largest_enrolment(cluster, certificate, holds)
                compare("entry", len(encode(enrolment)), bound)
                for members in (1, 23, 24, 240, 256):
                    header, entries = largest_header(cluster, certificate, 16), [enrolment] * members
                    full = header_bounds[16] + members * bound + full_more
                    compare("full list", len(encode([header, entries])), full)
                    short = header_bounds[16] + members * bound + 8 * 10_000 + short_more
                    compare("short list", len(encode([header, entries, bytes(80_000)])), short)
    for what, gap in gaps.items():
        if gap > 8:
            wrong += 1
            print(f"  sizes: no {what} comes closer than {gap} bytes to what the page allows")
    print(f"{'sizes of lists':24} {tried} compared, {wrong} wrong")
    return wrong


# ---- The self-test ---------------------------------------------------------------------------------------------------

# What explains a vector.
FREE = {"comment", "name", "detail"}


def leaves(node: Any, path: tuple = ()) -> Iterator[tuple]:
    """The places of all values in a case."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in FREE:
                yield from leaves(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from leaves(value, (*path, index))
    else:
        yield path


def alter(value: Any, seed: int) -> Any:
    """Another value that looks like the given one: for bytes, one byte flipped."""
    if value is None:
        return "00" * 8
    if isinstance(value, int):
        return 0 if value else 1
    if value in ("yes", "no"):
        return "no" if value == "yes" else "yes"
    if value == "":
        return "00" * 8
    if len(value) % 2 == 0 and re.fullmatch("[0-9a-f]+", value):
        data = bytearray.fromhex(value)
        # X25519 ignores some bits of the first and the last byte of a key.
        at = 1 + seed % 30 if len(data) == 32 else seed % len(data)
        data[at] ^= 1 << seed % 8
        return data.hex()
    if re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", value):
        return ("8" if value[0] != "8" else "7") + value[1:]
    return ("y" if value[0] != "y" else "z") + value[1:]


def is_binding(case: Case, path: tuple) -> bool:
    """Whether a change there must be noticed."""
    if "shares" in case:
        return False  # binds nobody but its maker
    if case.get("refusal") is not None:
        return path == ("refusal",)  # what is refused may be refused in many forms
    if path[:1] == ("attempts",) and path[-1] == "slot":
        return case["attempts"][path[1]]["day_micro_rho"] > 0  # without rho, a reading draws on no day
    if path[-1] == "self_key" and "every" in case:
        return case["meters"][path[1]]["id"] in case["every"]["holder_ids"]  # others deal nothing to themselves
    if path[0] == "answers" and path[-1] == "value":
        return case["answers"][path[1]]["point"] not in case["wrong"]  # a wrong answer may be any
    if case.get("threshold", "") is None and case.get("terms", {}).get("scheme", PAIRWISE) == PAIRWISE:
        return path not in [("members",), ("w",), ("terms", "partners")]  # many numbers mean: all are partners
    return True


def alterations(vector: Vector) -> Iterator[tuple[tuple, Case]]:
    """The case with one value changed, for every value on which its check depends."""
    for number, path in enumerate(leaves(vector.case)):
        if not is_binding(vector.case, path):
            continue
        case = copy.deepcopy(vector.case)
        *way, last = path
        parent = case
        for step in way:
            parent = parent[step]
        parent[last] = alter(parent[last], 7919 * (number + 1))
        yield path, case


def self_test(all_vectors: list[Vector]) -> int:
    """Alters every vector in every place; returns how many alterations went unnoticed."""
    tried = unnoticed = 0
    for vector in all_vectors:
        for path, case in alterations(vector):
            tried += 1
            if vector.fails(case) is None:
                unnoticed += 1
                name = vector.case.get("name", "")
                print(f"  unnoticed: {vector.file} {name} {'.'.join(map(str, path))}")
    print(f"{'self-test':24} {tried} alterations, {unnoticed} unnoticed")
    return unnoticed


def main() -> int:
    all_vectors = vectors()
    failed = 0
    if "--self-test" not in sys.argv[1:]:
        for file in dict.fromkeys(vector.file for vector in all_vectors):
            own = [vector for vector in all_vectors if vector.file == file]
            failures = [(vector, why) for vector in own if (why := vector.fails(vector.case))]
            print(f"{file:24} {len(own) - len(failures)} passed, {len(failures)} failed")
            for vector, why in failures:
                print(f"  {vector.case.get('name', '')} {why}")
            failed += len(failures)
        failed += check_grammar() + check_sizes() + check_example()
    unnoticed = self_test(all_vectors)
    if "--self-test" not in sys.argv[1:]:
        print(f"{len(all_vectors) - failed} passed, {failed} failed")
    return 1 if failed or unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
