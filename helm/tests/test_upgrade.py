"""What happens to a release that is there: the hook that looks before anything is changed, and the number of replicas."""

import contextlib
import json
import re
import shutil
import subprocess

import pytest
from api_server import Cluster, serving
from conftest import CHART, program
from test_chart import BASE, of_kind, toml_of

# ---- The hook ------------------------------------------------------------------------------------------------------------


def hook(helm, *args):
    return of_kind(helm.objects(*args), "Job", "grid-dream-gateway-check-config")


def test_the_hook_comes_first_and_needs_nothing_of_the_release(helm):
    for values in ("minimal", "full", "trial", "cert-manager"):
        objects = helm.objects("-f", CHART / "ci" / f"{values}-values.yaml")
        hooks = [each for each in objects if "check-config" in each["metadata"]["name"]]
        notes = {each["kind"]: each["metadata"]["annotations"] for each in hooks}
        assert set(notes) == {"ConfigMap", "Job"}
        for annotations in notes.values():
            assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert int(notes["ConfigMap"]["helm.sh/hook-weight"]) < int(notes["Job"].get("helm.sh/hook-weight", "0"))
        pod = of_kind(hooks, "Job")["spec"]["template"]["spec"]
        account = None if values != "trial" else "default"
        assert pod.get("serviceAccountName") == account, "the account of the release is not there yet"
        own = {each["metadata"]["name"] for each in objects} - {"grid-dream-gateway-check-config"}
        required = re.findall(r"'(?:name|secretName)': '([^']+)'", str(strict_sources(pod)))
        assert not own & set(required), required


def strict_sources(pod):
    """Secrets and config maps that must be there before the pod starts."""
    container = pod["containers"][0]
    entries = [each.get("valueFrom", {}) for each in container.get("env", [])] + container.get("envFrom", []) + pod["volumes"]
    kinds = ("secret", "configMap", "secretRef", "configMapRef", "secretKeyRef", "configMapKeyRef")
    return [each[kind] for each in entries for kind in kinds if kind in each and not each[kind].get("optional")]


def test_only_its_own_config_map_has_to_be_there(helm):
    pod = hook(helm, "-f", CHART / "ci" / "full-values.yaml")["spec"]["template"]["spec"]
    assert strict_sources(pod) == [{"name": "grid-dream-gateway-check-config"}]
    gateway = of_kind(helm.objects("-f", CHART / "ci" / "full-values.yaml"), "StatefulSet")["spec"]["template"]["spec"]
    assert len(strict_sources(gateway)) == 12, "the gateway itself waits for what it needs"
    assert pod["containers"][0]["volumeMounts"] == gateway["containers"][0]["volumeMounts"][:-1], "all but extraVolumeMounts"


def test_the_hook_can_be_left_out(helm):
    objects = helm.objects(*BASE, "--set", "checkConfig.enabled=false")
    assert not [each for each in objects if "check-config" in each["metadata"]["name"]]


def run_hook(objects, folder):
    """Runs the hook's command on this machine, with its files below a folder."""
    container = of_kind(objects, "Job")["spec"]["template"]["spec"]["containers"][0]
    config = folder / "etc" / "dream" / "config"
    config.mkdir(parents=True)
    (config / "gateway.toml").write_text(toml_of(objects).replace('"/', f'"{folder}/'))
    arguments = [word.replace("/etc/dream", f"{folder}/etc/dream") for word in container["args"]]
    return subprocess.run([program("dream-gateway"), *arguments], capture_output=True, text=True, env={})


def test_the_hook_accepts_a_trial_with_its_files(helm, tmp_path):
    words = ["provision", "--out", tmp_path / "trial", "--meters", "50", "--cluster", "riverside", "--slot-seconds", "60"]
    words += ["--broker-url", "mqtt://mosquitto:1883"]
    subprocess.run([program("meter-sim"), *words], check=True, capture_output=True)
    dream = tmp_path / "root" / "etc" / "dream"
    files = {
        "identity/tls.crt": "gateway.pem",
        "identity/tls.key": "gateway.key",
        "meter-authorities/meter-authority.pem": "meter-authority.pem",
        "gateway-authorities/ca.crt": "gateway-authority.pem",
    }
    for name, made in files.items():
        (dream / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "trial" / made, dream / name)
    (tmp_path / "root" / "var" / "lib" / "dream").mkdir(parents=True)
    done = run_hook(helm.objects("-f", CHART / "ci" / "trial-values.yaml"), tmp_path / "root")
    assert done.returncode == 0 and "certificate valid until" in done.stdout, done.stdout + done.stderr


def test_the_hook_names_what_is_missing(helm, tmp_path):
    done = run_hook(helm.objects(*BASE), tmp_path)
    assert done.returncode == 2 and "gateway-authorities/ca.crt" in done.stderr, done.stderr


def test_the_hook_leaves_files_out_where_there_are_none_yet(helm, tmp_path):
    for number, args in enumerate(
        [("-f", CHART / "ci" / "cert-manager-values.yaml"), (*BASE, "--set", "checkConfig.files=false")]
    ):
        root = tmp_path / str(number)
        (root / "var" / "lib" / "dream").mkdir(parents=True)
        done = run_hook(helm.objects(*args), root)
        assert done.returncode == 0, done.stderr


# ---- Helm itself, with an API server that keeps objects and says at once what becomes of a job ---------------------------


@contextlib.contextmanager
def release(helm, *args):
    """A release that is installed; yields its cluster and how to run more of helm."""
    cluster = Cluster()
    with serving(cluster) as address:

        def run(command, *more):
            chart = () if command == "rollback" else (CHART, *BASE)
            server = ("--namespace", "energy", "--kube-apiserver", address, "--timeout", "20s")
            return helm.run(command, "grid", *more, *chart, *server)

        done = run("install", *args)
        assert done.returncode == 0, done.stderr
        yield cluster, run


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_failed_hook_leaves_everything_as_it_was(helm, condition):
    name = "grid-dream-gateway"
    with release(helm) as (cluster, run):
        before = {kind: json.dumps(cluster.find(kind, name)) for kind in ("ConfigMap", "StatefulSet", "Service")}
        assert "null" not in before.values() and not cluster.find("Job", f"{name}-check-config"), "it has gone away"
        cluster.job_condition = condition
        done = run("upgrade", "--set", "config.log.level=debug")
        after = {kind: json.dumps(cluster.find(kind, name)) for kind in before}
        if condition == "Complete":
            assert done.returncode == 0 and 'level = \\"debug\\"' in after["ConfigMap"], done.stderr
        else:
            assert done.returncode != 0 and "pre-upgrade hooks failed" in done.stderr, done.stderr
            assert before == after
            assert cluster.find("Job", f"{name}-check-config"), "its log can be read"
            assert ("what the container said" in done.stdout + done.stderr) == (helm.version == "v4")


# ---- The number of replicas, which Kubernetes itself keeps as it is -------------------------------------------------------

NAME = "grid-dream-gateway"


def told(cluster):
    """How many gateways share the clusters, as each of them is told; None if there are none."""
    found = cluster.find("StatefulSet", NAME)
    if not found:
        return None
    container = found["spec"]["template"]["spec"]["containers"][0]
    (number,) = [each["value"] for each in container["env"] if each["name"] == "DREAM_REPLICAS"]
    assert int(number) == found["spec"]["replicas"]
    return int(number)


def test_another_number_is_refused_while_there_are_gateways(helm):
    with release(helm, "--set", "replicas=3") as (cluster, run):
        before = json.dumps(cluster.find("StatefulSet", NAME)["spec"])
        for wanted in (5, 2, 1):
            refused = run("upgrade", "--set", f"replicas={wanted}")
            assert refused.returncode != 0 and "updates to statefulset spec for fields other than" in refused.stderr
            assert json.dumps(cluster.find("StatefulSet", NAME)["spec"]) == before
        toml = cluster.find("ConfigMap", NAME)["data"]["gateway.toml"]
        assert "replicas" not in toml, "a pod that restarts meanwhile is told the number of before"
        done = run("upgrade", "--set", "replicas=3,config.log.level=debug")
        assert done.returncode == 0 and told(cluster) == 3, "everything else may change: " + done.stderr


def test_the_number_changes_by_way_of_none(helm):
    with release(helm, "--set", "replicas=3") as (cluster, run):
        done = run("upgrade", "--set", "replicas=0")
        assert done.returncode == 0 and told(cluster) is None, done.stderr
        assert cluster.find("ConfigMap", NAME) and cluster.find("Service", NAME), "the rest stays"
        done = run("upgrade", "--set", "replicas=5")
        assert done.returncode == 0 and told(cluster) == 5, done.stderr


def test_a_rollback_to_another_number_is_refused_too(helm):
    with release(helm, "--set", "replicas=3") as (cluster, run):
        assert run("upgrade", "--set", "replicas=0").returncode == 0
        assert run("upgrade", "--set", "replicas=5").returncode == 0
        done = run("rollback", "1")
        assert done.returncode != 0 and told(cluster) == 5, done.stderr
        assert run("rollback", "2").returncode == 0 and told(cluster) is None, "to none it may go"
