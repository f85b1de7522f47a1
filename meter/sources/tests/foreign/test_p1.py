"""P1 telegrams: those of other people's tests, and made ones in every dialect, against `dsmr_parser`."""

import random
from decimal import Decimal

import pytest
from dsmr_parser import telegram_specifications as specs
from dsmr_parser.parsers import TelegramParser

from ours import NODE, Running, crate, samples, send, terminal


def crc16_arc(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def theirs(telegram, spec):
    """What `dsmr_parser` finds, as a sample: thousandths of a watt-hour, milliwatts."""
    parsed = TelegramParser(spec).parse(telegram.decode("ascii"))

    def value(name, unit):
        found = getattr(parsed, name, None)
        if found is None:
            return None
        assert found.unit in (unit, unit[1:]), (name, found.unit)
        thousand = 1_000_000 if found.unit == unit else 1_000
        return int(Decimal(str(found.value)) * thousand)

    def total(whole, apart):
        total = value(f"ELECTRICITY_{whole}_TOTAL", "kWh")
        tariffs = [value(f"ELECTRICITY_{apart}_TARIFF_{n}", "kWh") for n in (1, 2, 3, 4)]
        tariffs = [tariff for tariff in tariffs if tariff is not None]
        return total if total is not None else sum(tariffs) if tariffs else None

    usage, delivery = value("CURRENT_ELECTRICITY_USAGE", "kW"), value("CURRENT_ELECTRICITY_DELIVERY", "kW")
    power = None if usage is None and delivery is None else (usage or 0) - (delivery or 0)
    return {"import": total("IMPORTED", "USED"), "export": total("EXPORTED", "DELIVERED"), "power": power}


def ours(telegram):
    found = samples("p1", telegram)
    assert len(found) == 1, found
    found[0].pop("step", None)
    return found[0]


def with_end(lines, checksum=True):
    body = ("/TST5\\MADE\r\n\r\n" + "\r\n".join(lines) + "\r\n!").encode()
    return body + (b"%04X" % crc16_arc(body) if checksum else b"") + b"\r\n"


# ---- Telegrams of others ------------------------------------------------------------------------------------------------

DSMR5 = ["isk.txt", "kaifa.txt", "mcs.txt"]


@pytest.mark.parametrize("name", DSMR5)
def test_telegrams_of_the_crate_dsmr5(name):
    telegram = (crate("dsmr5") / "test" / name).read_bytes()
    spec = specs.V5 if b"0.2.8(5" in telegram else specs.V4
    assert ours(telegram) == theirs(telegram, spec)


def test_many_telegrams_that_have_lost_their_ends():
    telegram = (crate("dsmr5") / "test" / "overflow.txt").read_bytes()
    assert all("error" in found for found in samples("p1", telegram))


def test_the_telegram_of_the_npm_package_dsmr_parser():
    telegram = (NODE / "dsmr-parser" / "example-telegram.txt").read_bytes()
    assert ours(telegram) == theirs(telegram, specs.V4)


# ---- Made telegrams, in every dialect -------------------------------------------------------------------------------------

def kwh(rng, places=3):
    return f"{rng.randrange(10 ** 9) / 10 ** 3:010.{places}f}*kWh"


def kw(rng):
    return f"{rng.randrange(20_000) / 1000:06.3f}*kW"


def dutch_tariffs(rng):
    return [f"1-0:{c}.8.{t}({kwh(rng)})" for c in (1, 2) for t in (1, 2)]


def power(rng):
    return [f"1-0:1.7.0({kw(rng)})", f"1-0:2.7.0({kw(rng)})"]


DIALECTS = {
    "DSMR 2.2": (specs.V2_2, False, lambda rng: ["0-0:96.1.1(00)", *dutch_tariffs(rng), *power(rng)]),
    "DSMR 3": (specs.V3, False, lambda rng: ["0-0:96.1.1(00)", *dutch_tariffs(rng), *power(rng)]),
    "DSMR 4": (specs.V4, True, lambda rng: ["1-3:0.2.8(42)", *dutch_tariffs(rng), *power(rng)]),
    "DSMR 5": (specs.V5, True, lambda rng: ["1-3:0.2.8(50)", *dutch_tariffs(rng), *power(rng)]),
    "Belgium": (specs.BELGIUM_FLUVIUS, True, lambda rng: ["0-0:96.1.4(50217)", *dutch_tariffs(rng), *power(rng)]),
    "Luxembourg": (
        specs.LUXEMBOURG_SMARTY,
        True,
        lambda rng: ["1-3:0.2.8(42)", f"1-0:1.8.0({kwh(rng)})", f"1-0:2.8.0({kwh(rng)})", *power(rng)],
    ),
    "Sweden": (
        specs.SWEDEN,
        True,
        lambda rng: ["0-0:1.0.0(210820102012W)", f"1-0:1.8.0({kwh(rng)})", f"1-0:2.8.0({kwh(rng)})", *power(rng)],
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_made_telegrams_of_a_dialect(dialect):
    spec, checksum, lines = DIALECTS[dialect]
    # A Luxembourgish telegram is encrypted on the wire; what a decrypting cable hands on is compared.
    spec = {**spec, "general_global_cipher": False}
    for seed in range(20):
        telegram = with_end(lines(random.Random(seed)), checksum)
        assert ours(telegram) == theirs(telegram, spec), f"seed {seed}"


def test_a_power_in_watts_is_told_from_one_in_kilowatts():
    telegram = with_end(["1-3:0.2.8(50)", "1-0:1.7.0(00227*W)", "1-0:2.7.0(00.000*kW)"])
    assert ours(telegram) == {"import": None, "export": None, "power": 227_000}


# ---- A terminal per telegram ------------------------------------------------------------------------------------------------

def telegrams():
    for name in DSMR5:
        yield (crate("dsmr5") / "test" / name).read_bytes()
    for _, checksum, lines in DIALECTS.values():
        yield with_end(lines(random.Random(1)), checksum)


@pytest.mark.parametrize("line", ["auto", "9600-7e1"])
def test_every_telegram_through_a_terminal(line):
    for telegram in telegrams():
        with terminal() as (meter, path), Running(f"kind = 'p1'\nserial = '{path}'\nline = '{line}'") as source:
            source.until("connected")
            send(meter, telegram)
            found, before = source.until("import")
            found.pop("step")
            assert (found, before) == (ours(telegram), [])
