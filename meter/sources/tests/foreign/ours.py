"""Runs our own code (`examples/samples.rs`), and finds what others wrote: telegrams in crates and packages."""

import contextlib
import functools
import json
import os
import pathlib
import pty
import select
import subprocess
import tempfile
import time
import tty

ROOT = pathlib.Path(__file__).resolve().parents[4]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SAMPLES = TARGET / "debug" / "examples" / "samples"
NODE = ROOT / "target" / "tools" / "meter-node" / "node_modules"

# A test that waits longer for a line has failed.
PATIENCE = 120


@functools.cache
def crate(name):
    """The directory of a crate's source, as cargo has it."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    return next(pathlib.Path(p["manifest_path"]).parent for p in packages if p["name"] == name)


def samples(kind, data, *more):
    """What we make of the bytes of a file: a dictionary for each telegram."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        done = subprocess.run([SAMPLES, kind, file.name, *more], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Running:
    """A source that runs until the end of a `with`."""

    def __init__(self, config, count=1000):
        self.config = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.config.write(config)
        self.config.flush()
        self.process = subprocess.Popen([SAMPLES, "run", self.config.name, str(count)], stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.config.close()

    def line(self):
        """The next event."""
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "nothing came"
        return json.loads(self.process.stdout.readline())

    def until(self, wanted):
        """The next event that has this key, and those before it."""
        before = []
        while wanted not in (event := self.line()):
            before.append(event)
        return event, before


@contextlib.contextmanager
def terminal():
    """A terminal that stands for a serial port: the end of a meter, and the path of the other one."""
    meter, other = pty.openpty()
    tty.setraw(meter)
    try:
        yield meter, os.ttyname(other)
    finally:
        os.close(meter)
        os.close(other)


def send(meter, data):
    """Writes all of it; a terminal takes a few kilobytes at a time."""
    deadline = time.monotonic() + PATIENCE
    while data:
        assert time.monotonic() < deadline, "the other end does not read"
        _, ready, _ = select.select([], [meter], [], 1)
        if ready:
            data = data[os.write(meter, data[:512]):]
