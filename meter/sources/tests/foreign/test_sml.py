"""Dumps of real meters, which come with the crate `sml-rs`, against `smllib`."""

import re

import pytest
from smllib import SmlStreamReader
from smllib.errors import CrcError

from ours import Running, crate, samples, send, terminal

DUMPS = sorted((crate("sml-rs") / "tests" / "libsml-testing").glob("*.bin"))

IMPORT, EXPORT = 1, 2
WATT, WATT_HOUR = 27, 30

# An entry for a signature has no value in these dumps, and `smllib` gives up the whole message. What `sml-rs` makes of the first
# message is in the snapshots of its own tests, which are compared with instead.
WITHOUT_A_VALUE = {"EMH_eHZ-IW8E2A5L0EK2P_with_error.bin"}

# A dump of noise, in which nobody finds a message.
BROKEN = {"DZG_DVS-7420.2V.G2_mtr1_error.bin"}


def thousandths(entry):
    """A value times ten to the power of its scaler, times a thousand, rounded half away from zero."""
    exponent = (entry.scaler or 0) + 3
    if exponent >= 0:
        return entry.value * 10**exponent
    size, rest = divmod(abs(entry.value), 10**-exponent)
    size += 2 * rest >= 10**-exponent
    return size if entry.value >= 0 else -size


def sample_of(messages):
    """What a sample is made of, by its OBIS codes."""
    entries = {}
    for message in messages:
        for entry in getattr(message.message_body, "val_list", []):
            entries[str(entry.obis)] = entry

    def at(c, d, e, unit):
        entry = entries.get(f"0100{c:02x}{d:02x}{e:02x}ff")
        return thousandths(entry) if entry is not None and entry.unit == unit else None

    def counter(direction):
        total = at(direction, 8, 0, WATT_HOUR)
        tariffs = [found for n in (1, 2, 3, 4) if (found := at(direction, 8, n, WATT_HOUR)) is not None]
        return total if total is not None else sum(tariffs) if tariffs else None

    apart = [at(direction, 7, 0, WATT) for direction in (IMPORT, EXPORT)]
    power = at(16, 7, 0, WATT)
    if power is None and apart != [None, None]:
        power = (apart[0] or 0) - (apart[1] or 0)
    return {"import": counter(IMPORT), "export": counter(EXPORT), "power": power}


def theirs(data, crc="x25"):
    """A sample for each message, or `None` for one that is refused."""
    found = []
    reader = SmlStreamReader(crc=crc)
    for start in range(0, len(data), 1024):
        reader.add(data[start:start + 1024])
        while True:
            try:
                frame = reader.get_frame()
            except CrcError:
                found.append(None)
                continue
            if frame is None:
                break
            try:
                sample = sample_of(frame.parse_frame())
            except Exception:  # what it raises for a message that it cannot read has many types
                sample = None
            found.append(sample if sample and any(value is not None for value in sample.values()) else None)
    return found


def ours(data, *more):
    found = samples("sml", data, *more)
    return [None if "error" in one else {key: one[key] for key in ("import", "export", "power")} for one in found]


def test_all_dumps_are_there():
    assert len(DUMPS) >= 37


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.stem)
def test_every_message_of_a_dump_is_read_alike(dump):
    data = dump.read_bytes()
    found = [one for one in ours(data) if one]
    if dump.name in WITHOUT_A_VALUE:
        assert not any(theirs(data)), "smllib reads it now: take it out of the list"
        assert found[0] == sample_of_snapshot(dump)
    else:
        assert found == [one for one in theirs(data) if one]
    assert bool(found) != (dump.name in BROKEN)


def sample_of_snapshot(dump):
    """What a sample of the first message is made of, from the text in which `sml-rs` shows it."""
    text = (dump.parents[1] / "snapshots" / f"libsml_testing__files@{dump.name}.snap").read_text()
    entry = r"obj_name: \[1, 0, (\d+), (\d+), (\d+), 255\],[^}]*?unit: \d+,\s+scaler: (-?\d+),\s+value: (-?\d+)[iu]\d+"
    found = {}
    for c, d, e, scaler, value in re.findall(entry, text):
        found.setdefault((int(c), int(d), int(e)), int(value) * 10 ** (int(scaler) + 3))
    return {"import": found.get((1, 8, 0)), "export": found.get((2, 8, 0)), "power": found.get((16, 7, 0))}


def test_meters_that_are_locked_show_whole_kilowatt_hours_and_no_power():
    for dump in DUMPS:
        if "without_PIN" in dump.name:
            for one in samples("sml", dump.read_bytes()):
                assert (one["power"], one["step"]) == (None, 1_000_000), dump.name


def crc16(data, start):
    crc = start
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x8408 if crc & 1 else crc >> 1
    return crc


def test_a_meter_with_the_other_checksum():
    """A Holley's message with the checksum that some of them have, which `smllib` knows too."""
    dump = next(dump for dump in DUMPS if dump.name == "HOLLEY_DTZ541-ZDBA.bin").read_bytes()
    start = dump.index(b"\x1b\x1b\x1b\x1b\x01\x01\x01\x01")
    end = dump.index(b"\x1b\x1b\x1b\x1b\x1a", start) + 6
    frame = dump[start:end]
    kermit = frame + crc16(frame, 0).to_bytes(2, "big")
    assert ours(kermit) == [None]
    assert ours(kermit, "kermit") == theirs(kermit, "kermit") == ours(dump)[:1]


def test_every_dump_through_a_terminal():
    for dump in DUMPS:
        expected = next((one for one in ours(dump.read_bytes()) if one), None)
        if expected is None:
            continue
        # A meter that says neither power nor a counter of export counts none: the source says so in its sample.
        if expected["power"] is None and expected["export"] is None:
            expected = expected | {"export": 0}
        with terminal() as (meter, path), Running(f"kind = 'sml'\nserial = '{path}'", 1) as source:
            source.until("connected")
            send(meter, dump.read_bytes())
            found, _ = source.until("import")
            assert {key: found[key] for key in expected} == expected, dump.name
