"""A real gateway with simulated meters, and a real Prometheus that scrapes it: `meter-sim demo` and Debian's package."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from conftest import RULES, program

PATIENCE_SECONDS = 240


@contextlib.contextmanager
def running(command, **kwargs):
    """A process that is stopped, with those that it started, whatever happens."""
    process = subprocess.Popen([str(part) for part in command], start_new_session=True, **kwargs)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(what, ask):
    """Asks until there is an answer that counts."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, urllib.error.HTTPError):
            answer = ask()
            if answer:
                return answer
        time.sleep(0.5)
    raise AssertionError(f"waited in vain: {what}")


class Lab:
    """What is asked of Prometheus while a demo runs."""

    def __init__(self, metrics, prometheus):
        self.metrics, self.prometheus, self.started = metrics, prometheus, time.time()

    def get(self, path, **parameters):
        url = f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def instant(self, expr):
        return self.get("query", query=self.fill(expr))["result"]

    def over_time(self, expr, steps=120):
        end = time.time()
        step = max(1, (end - self.started) / steps)
        return self.get("query_range", query=self.fill(expr), start=self.started, end=end, step=step)["result"]

    def values(self, query):
        """What a variable of a dashboard offers."""
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
        return self.get(f"label/{label}/values", **{"match[]": self.fill(selector)})

    def fill(self, expr):
        """What Grafana does with variables: everything is chosen, and one cluster."""
        chosen = {"job": ".*", "cluster": ".*", "instance": ".*", "focus": "riverside", "datasource": "prometheus"}
        chosen |= {"__rate_interval": "20s", "__range": f"{max(5, int(time.time() - self.started))}s"}
        return re.sub(r"\$\{?(\w+)\}?", lambda found: chosen[found[1]], expr)


@contextlib.contextmanager
def lab(meters=40, faults=0.05, vanish=0.002):
    """A demo and a Prometheus on the loopback, in a directory that goes away."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = [program("meter-sim"), "demo", "--meters", meters, "--faults", faults, "--vanish", vanish]
        log = stack.enter_context((folder / "demo.log").open("w"))
        demo = stack.enter_context(running(command, stdout=subprocess.PIPE, stderr=log, text=True))
        address = next((line for line in demo.stdout if line.startswith("metrics")), None)
        assert address, (folder / "demo.log").read_text()
        metrics = address.split()[1]
        # Its lines must go somewhere, or it waits for a reader.
        threading.Thread(target=lambda: [None for _ in demo.stdout], daemon=True).start()

        port, target = free_port(), urllib.parse.urlparse(metrics).netloc
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "dream-gateway", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        stack.enter_context(running(command, stdout=log, stderr=log))
        found = Lab(metrics, f"http://127.0.0.1:{port}")
        until("Prometheus", lambda: urllib.request.urlopen(f"{found.prometheus}/-/ready", timeout=5))
        yield found
