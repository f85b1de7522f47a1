"""Where things are, and helm in both of its versions."""

import os
import pathlib
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "dream-gateway"
RULES = CHART / "rules" / "dream-gateway.rules.yaml"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
NODE = ROOT / "target" / "tools" / "helm-node"
RUNBOOKS = "https://runbooks.example/runbooks.md"


def program(name):
    """A program of the project, built by the suite or named by the environment."""
    return os.environ.get(name.upper().replace("-", "_"), str(ROOT / "target" / "debug" / name))


class Helm:
    def __init__(self, path, version):
        self.path, self.version = path, version

    def run(self, *args, home=None):
        """Runs it; with a `home` of its own for what it remembers, such as repositories."""
        environment = {**os.environ, "KUBECONFIG": "/nonexistent"}
        if home:
            environment |= {f"HELM_{kind}_HOME": str(home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run([self.path, *map(str, args)], capture_output=True, text=True, env=environment)

    def ok(self, *args, **kwargs):
        done = self.run(*args, **kwargs)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def template(self, *args, name="grid"):
        return self.ok("template", name, CHART, "--namespace", "energy", *args)

    def objects(self, *args, **kwargs):
        return [each for each in yaml.safe_load_all(self.template(*args, **kwargs)) if each]


HELMS = [Helm(ROOT / ".venv" / "bin" / "helm", "v3"), Helm(NODE / "helm", "v4")]


@pytest.fixture(params=HELMS, ids=["helm3", "helm4"])
def helm(request):
    """Each version in turn; the wrong one under either name would test nothing."""
    said = request.param.ok("version", "--short")
    assert said.startswith(request.param.version), said
    return request.param


def rule_groups():
    return yaml.safe_load(RULES.read_text())["groups"]


def alerts():
    return {rule["alert"]: rule for group in rule_groups() for rule in group["rules"] if "alert" in rule}
