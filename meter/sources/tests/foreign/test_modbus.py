"""Devices of `pymodbus`, with registers that `pysunspec2` laid out."""

import asyncio
import contextlib
import os
import select
import socket
import struct
import threading

import pytest
import sunspec2.device
from pymodbus import FramerType
from pymodbus.server import ModbusSerialServer, ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from ours import Running, terminal

NO_BITS = [SimData(0, values=[False] * 16, datatype=DataType.BITS)]
NO_REGISTERS = [SimData(65_000, values=[0], datatype=DataType.REGISTERS)]


def device(holding=None, inputs=None, unit_id=1):
    return SimDevice(id=unit_id, simdata=(NO_BITS, NO_BITS, holding or NO_REGISTERS, inputs or NO_REGISTERS))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def serving(make):
    """Runs a server in a thread of its own, until the end of the `with`."""
    loop, ready, server = asyncio.new_event_loop(), threading.Event(), []

    async def serve():
        server.append(make())
        await server[0].serve_forever(background=True)
        ready.set()

    def run():
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server[0].shutdown(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


@contextlib.contextmanager
def tcp(one, framer=FramerType.SOCKET):
    port = free_port()
    with serving(lambda: ModbusTcpServer(one, address=("127.0.0.1", port), framer=framer)):
        yield f"127.0.0.1:{port}"


def sample(config):
    with Running(f"kind = 'modbus'\n{config}", 1) as source:
        found, before = source.until("import")
        assert all("connected" in event for event in before), before
        return found["import"], found["export"], found["power"]


def eastron(power_at=0x34):
    floats = [(power_at, -1234.5), (0x48, 7881.115), (0x4A, 12.25)]
    return device(inputs=[SimData(at, values=[value], datatype=DataType.FLOAT32) for at, value in floats])


EASTRON = (7_881_115_000, 12_250_000, -1_234_500)


@pytest.mark.parametrize("preset, power_at", [("sdm630", 0x34), ("sdm72", 0x34), ("sdm230", 0x0C), ("sdm120", 0x0C)])
def test_an_eastron_over_tcp(preset, power_at):
    with tcp(eastron(power_at)) as address:
        assert sample(f"tcp = '{address}'\npreset = 'eastron-{preset}'") == EASTRON


def test_an_eastron_behind_a_bridge_that_passes_on_frames():
    with tcp(eastron(), FramerType.RTU) as address:
        assert sample(f"tcp = '{address}'\nrtu_over_tcp = true\npreset = 'eastron-sdm630'") == EASTRON


def test_an_eastron_on_a_serial_line():
    with line() as (one_end, other_end):
        with serving(lambda: ModbusSerialServer(eastron(), framer=FramerType.RTU, port=one_end, baudrate=9600)):
            assert sample(f"serial = '{other_end}'\npreset = 'eastron-sdm630'") == EASTRON


@contextlib.contextmanager
def line():
    """Two terminals, joined: what is written into one comes out of the other."""
    with terminal() as (one, one_path), terminal() as (other, other_path):
        ending = threading.Event()

        def join():
            while not ending.is_set():
                ready, _, _ = select.select([one, other], [], [], 0.05)
                for end in ready:
                    os.write(other if end == one else one, os.read(end, 1024))

        thread = threading.Thread(target=join, daemon=True)
        thread.start()
        try:
            yield one_path, other_path
        finally:
            ending.set()
            thread.join(60)


def sunspec(base, *models):
    """Registers of a device with these models, behind the common one."""
    common = sunspec2.device.Model(1)
    common.Mn.value, common.Md.value = "Somebody", "Meter"
    image = b"SunS" + b"".join(model.get_mb() for model in (common, *models)) + b"\xff\xff\x00\x00"
    words = list(struct.unpack(f">{len(image) // 2}H", image))
    return device(holding=[SimData(base, values=words, datatype=DataType.REGISTERS)])


@pytest.mark.parametrize("number", [201, 202, 203, 204])
@pytest.mark.parametrize("base", [40_000, 50_000, 0])
def test_sunspec_in_whole_numbers(number, base):
    model = sunspec2.device.Model(number)
    model.W.value, model.W_SF.value = -1234, -1
    model.TotWhExp.value, model.TotWhImp.value, model.TotWh_SF.value = 777, 70_001, 1
    with tcp(sunspec(base, model)) as address:
        found = sample(f"tcp = '{address}'\npreset = 'sunspec'")
    assert found == (int(model.TotWhImp.cvalue) * 1000, int(model.TotWhExp.cvalue) * 1000, round(model.W.cvalue * 1000))


@pytest.mark.parametrize("number", [211, 212, 213, 214])
def test_sunspec_in_floats(number):
    model = sunspec2.device.Model(number)
    model.W.value, model.TotWhExp.value, model.TotWhImp.value = -312.5, 8_000.0, 123_456.0
    with tcp(sunspec(40_000, model)) as address:
        assert sample(f"tcp = '{address}'\npreset = 'sunspec'") == (123_456_000, 8_000_000, -312_500)


def test_a_device_without_a_meter_says_so():
    inverter = sunspec2.device.Model(103)
    with tcp(sunspec(40_000, inverter)) as address:
        with Running(f"kind = 'modbus'\ntcp = '{address}'\npreset = 'sunspec'") as source:
            assert "no SunSpec model of a meter" in source.until("error")[0]["error"]
