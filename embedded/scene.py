#!/usr/bin/env python3
"""Cuts the test vectors into files that the firmware `meter` can read without a parser: scene.py FOLDER."""

import json
import sys
from pathlib import Path

VECTORS = Path(__file__).parent.parent / "protocol/tests/vectors"


def load(name: str) -> dict:
    return json.loads((VECTORS / f"{name}.json").read_text())


def scene(folder: Path, world: dict, index: int, seed: int, the_list: tuple[str, str], request: dict | None) -> None:
    """Writes what one member is configured with, the list it gets, and a request."""
    folder.mkdir(parents=True, exist_ok=True)
    meter = world["meters"][index]
    authorities = world.get("meter_authorities") or [world["meter_authority"]["certificate"]]
    gateway = world["gateway_authority"]
    files = {
        "meter-authorities": b"".join(len(der).to_bytes(2) + der for der in map(bytes.fromhex, authorities)),
        "gateway-authority": bytes.fromhex(gateway if isinstance(gateway, str) else gateway["certificate"]),
        "identity": bytes.fromhex(meter["identity_private"]),
        "certificate": bytes.fromhex(meter["certificate"]),
        "seed": (seed + index).to_bytes(8),
        "list-topic": the_list[0].encode(),
        "list": bytes.fromhex(the_list[1]),
        "request-topic": (request["topic"] if request else "").encode(),
        "request": bytes.fromhex(request["envelope"]) if request else b"",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)


def main() -> None:
    folder = Path(sys.argv[1])
    pairwise, committee, slots = load("membership"), load("committee"), load("committee_slot")["slots"]
    every, drawn = committee["every"], committee["drawn"]
    whole = pairwise["list"]
    scene(folder / "pairwise", pairwise, 0, 1000, (whole["topic"], whole["full_list"]), load("slot")["request"])
    # home-03 is willing among 13 only, so that it is never a holder; home-00 is one of `every`.
    scene(folder / "member", committee, 3, 2000, (drawn["header_topic"], drawn["short_list"]), None)
    scene(folder / "holder", committee, 0, 2000, (every["topic"], every["full_list"]), slots[0]["request"])


main()
