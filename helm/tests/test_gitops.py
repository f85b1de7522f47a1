"""Tools that render without a cluster get what helm would install; the chart can be had from a repository of its own."""

import functools
import http.server
import os
import re
import subprocess
import threading

import pytest
import yaml
from api_server import Cluster, serving
from conftest import CHART, ROOT
from test_chart import BASE, custom_check, each_values, gateway_pod

GITOPS = ROOT / "docs" / "gitops"

# Functions that answer differently each time, or ask a cluster, a clock or a network.
FICKLE = (
    "lookup|now|ago|date|dateInZone|htmlDate|unixEpoch|getHostByName|env|expandenv|uuidv4|shuffle|htpasswd|bcrypt|encryptAES"
    "|rand[A-Za-z]*|gen[A-Z][A-Za-z]*"
)


def documents(text):
    """The objects of manifests as text, in the order of their files; helm sorts hooks apart."""
    parts = re.split(r"^---\n", text, flags=re.MULTILINE)
    return sorted(part.strip() for part in parts if part.strip())


def dry_run(helm, chart, *args, **kwargs):
    """What `helm install` would install. Helm 3 wants a cluster even so, and looks whether names are taken."""
    with serving(Cluster()) as address:
        words = ("--namespace", "energy", "--dry-run=client", "--kube-apiserver", address)
        return helm.ok("install", "grid", chart, *words, *args, **kwargs)


@each_values
def test_what_is_rendered_without_a_cluster_is_what_helm_would_install(helm, values):
    rendered = helm.template("-f", values)
    assert rendered == helm.template("-f", values)
    said = dry_run(helm, CHART, "-f", values)
    hooks, manifest = re.search(r"^HOOKS:\n(.*?)^MANIFEST:\n(.*?)(?:^NOTES:|\Z)", said, re.MULTILINE | re.DOTALL).groups()
    assert documents(hooks + "\n---\n" + manifest) == documents(rendered)


def test_an_upgrade_renders_as_an_installation_does(helm):
    assert helm.template(*BASE, "--is-upgrade") == helm.template(*BASE)


def fickle(text):
    """The functions of this kind that a template calls."""
    actions = re.findall(r"\{\{-?(.*?)-?\}\}", re.sub(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", "", text, flags=re.DOTALL), re.DOTALL)
    code = [re.sub(r'"[^"]*"|`[^`]*`', '""', action) for action in actions]
    return [name for action in code for name in re.findall(rf"(?<![\w.$])({FICKLE})(?!\w)", action)]


@pytest.mark.parametrize("path", sorted((CHART / "templates").rglob("*.*")), ids=lambda path: path.name)
def test_no_template_asks_a_cluster_a_clock_or_a_die(path):
    text = path.read_text()
    assert not fickle(text)
    for known_only_to_helm in (".Release.IsInstall", ".Release.IsUpgrade", ".Release.Revision", ".Capabilities"):
        assert known_only_to_helm not in text


def test_such_a_function_would_be_noticed():
    for called in ("lookup", "randAlphaNum", "now", "genCA", "getHostByName", "uuidv4"):
        assert fickle('{{- $x := %s "v1" "Secret" -}}' % called) == [called]
    assert not fickle('{{ .Values.now }}{{ "now" }}{{/* now */}}{{ $now }}')


# https://argo-cd.readthedocs.io/en/stable/user-guide/helm/#helm-hooks: what Argo CD maps to its own, and what it leaves out.
ARGO = {"crd-install", "pre-install", "pre-upgrade", "post-install", "post-upgrade", "pre-delete", "post-delete"}


@each_values
def test_argo_cd_has_every_hook(helm, values):
    for each in helm.objects("-f", values):
        notes = each["metadata"].get("annotations", {})
        hooks = set(notes.get("helm.sh/hook", "").split(",")) - {"", "test"}
        assert hooks <= ARGO, "only `helm test` may be left out"
        if hooks:
            # Argo CD applies instead of creating: a job of before would stay as it was.
            assert "before-hook-creation" in notes["helm.sh/hook-delete-policy"]
        assert not [key for key in notes if key.startswith("argocd.argoproj.io/hook")], "it would ignore all hooks of helm"


# ---- The examples ----------------------------------------------------------------------------------------------------------


def examples():
    return [each for path in sorted(GITOPS.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def test_argo_cd_and_flux_know_every_field_of_the_examples():
    objects = examples()
    done = custom_check(objects)
    kinds = ["Application", "HelmRepository", "HelmRelease"]
    assert done.returncode == 0 and done.stdout.split() == kinds, done.stdout + done.stderr
    objects[0]["spec"]["destination"] = "energy"
    assert custom_check(objects[:1]).returncode != 0


def test_the_values_of_the_examples_can_be_installed(helm, tmp_path):
    application, repository, release = examples()
    source, chart = application["spec"]["source"], release["spec"]["chart"]["spec"]
    assert chart["sourceRef"]["name"] == repository["metadata"]["name"] and repository["spec"]["url"] == source["repoURL"]
    of_the_chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for name, version in ((source["chart"], source["targetRevision"]), (chart["chart"], chart["version"])):
        assert (name, version) == (of_the_chart["name"], of_the_chart["version"])
    for values in (source["helm"]["valuesObject"], release["spec"]["values"]):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        objects = helm.objects("-f", tmp_path / "values.yaml")
        assert gateway_pod(objects)["containers"][0]["image"].startswith("registry.example/dream-gateway:")
    assert application["spec"]["syncPolicy"]["automated"]["prune"] is True, "or replicas: 0 stops nothing"


# ---- The repository ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(helm, tmp_path):
    """What the script writes with this helm, served on the loopback."""
    folder = tmp_path / "charts"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, url
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def write(helm, *words):
    command = [ROOT / "scripts" / "chart-repository", *map(str, words)]
    done = subprocess.run(command, env={**os.environ, "HELM": str(helm.path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("whole", [False, True], ids=["relative", "whole"])
def test_the_chart_can_be_installed_from_a_repository(helm, repository, tmp_path, whole):
    folder, url = repository
    write(helm, folder, *([url] if whole else []))
    assert sorted(path.name for path in folder.iterdir()) == ["dream-gateway-0.1.0.tgz", "index.yaml"]
    home = tmp_path / "home"
    helm.ok("repo", "add", "dream", url, home=home)
    assert "dream/dream-gateway" in helm.ok("search", "repo", "dream", home=home)
    helm.ok("pull", "dream/dream-gateway", "--destination", tmp_path, "--untar", home=home)
    pulled = {path.relative_to(tmp_path / "dream-gateway") for path in (tmp_path / "dream-gateway").rglob("*.*")}
    assert pulled == {path.relative_to(CHART) for path in CHART.rglob("*.*") if not path.name.endswith("_test.yaml")}
    assert "kind: StatefulSet" in dry_run(helm, "dream/dream-gateway", *BASE, home=home)
    words = ("template", "grid", "dream/dream-gateway", "--namespace", "energy")
    assert helm.ok(*words, *BASE, home=home) == helm.template(*BASE)


def test_versions_that_are_there_stay_in_the_index(helm, repository, tmp_path):
    folder, _ = repository
    write(helm, folder)
    older = (folder / "dream-gateway-0.1.0.tgz").rename(folder / "dream-gateway-0.0.9.tgz")
    index = (folder / "index.yaml").read_text()
    (folder / "index.yaml").write_text(index.replace("0.1.0.tgz", "0.0.9.tgz").replace("version: 0.1.0", "version: 0.0.9"))
    older.unlink()
    write(helm, folder)
    entries = yaml.safe_load((folder / "index.yaml").read_text())["entries"]["dream-gateway"]
    assert [each["version"] for each in entries] == ["0.1.0", "0.0.9"]
