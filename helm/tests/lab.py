"""A real gateway with simulated meters, and a real Prometheus that scrapes it: `meter-sim demo` and Debian's package."""

import contextlib
import http.server
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
        """What Grafana does with variables: everything is chosen, and one cluster, and one group."""
        chosen = {"job": ".*", "cluster": ".*", "instance": ".*", "focus": "district-1", "datasource": "prometheus"}
        chosen |= {"group": ".*", "single": "town"}
        chosen |= {"__rate_interval": "20s", "__range": f"{max(5, int(time.time() - self.started))}s"}
        return re.sub(r"\$\{?(\w+)\}?", lambda found: chosen[found[1]], expr)


@contextlib.contextmanager
def lab(clusters=2, meters=51, faults=0.05, vanish=0.002, slot_seconds=5):
    """A demo and a Prometheus that scrapes it, on the loopback. Its clusters are district-1, district-2 and so on,
    and its group is the town."""
    # Prometheus knows no time but its own.
    arguments = ["--real-time", "--clusters", clusters, "--meters", meters]
    arguments += ["--slot-seconds", slot_seconds, "--faults", faults, "--vanish", vanish]
    with demo(arguments) as metrics, prometheus(metrics) as found:
        yield found


@contextlib.contextmanager
def demo(arguments):
    """A demo with these arguments; gives the address of its metrics."""
    command = [program("meter-sim"), "demo", *arguments]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = []
        address = next((line for line in process.stdout if said.append(line) or line.startswith("metrics")), None)
        assert address, "".join(said)
        # Its lines must go somewhere, or it waits for a reader.
        threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()
        yield address.split()[1]


@contextlib.contextmanager
def prometheus(metrics):
    """A Prometheus with our rules that scrapes one target every second, in a directory that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        targets = [{"targets": [urllib.parse.urlparse(metrics).netloc]}]
        with server(pathlib.Path(folder), [{"job_name": "dream-gateway", "static_configs": targets}]) as url:
            yield Lab(metrics, url)


@contextlib.contextmanager
def server(folder, scraped=()):
    """A Prometheus with our rules that keeps its data in a folder, and scrapes these jobs; gives its address."""
    url = f"http://127.0.0.1:{free_port()}"
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": list(scraped),
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command += [f"--web.listen-address={url.removeprefix('http://')}", "--log.level=error"]
    with running(command):
        until("Prometheus", lambda: urllib.request.urlopen(f"{url}/-/ready", timeout=5))
        yield url


@contextlib.contextmanager
def serving(text):
    """Answers every request with a text."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
