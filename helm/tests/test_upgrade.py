"""What happens to a release that is there: the number of replicas, and the hook that looks before anything is changed."""

import contextlib
import json
import re
import shutil
import subprocess

import pytest
from api_server import Cluster, serving
from conftest import CHART, program
from test_chart import BASE, of_kind, toml_of

# ---- The number of replicas ----------------------------------------------------------------------------------------------


def installed(helm, told, spec, pods):
    """A StatefulSet and a config map as they are in a cluster: told a number, asked for pods, with so many there."""
    objects = helm.objects(*BASE, "--set", f"replicas={told}")
    found = of_kind(objects, "StatefulSet")
    found["spec"]["replicas"], found["status"] = spec, {"replicas": pods}
    config = of_kind(objects, "ConfigMap", "grid-dream-gateway")
    for each in (found, config):
        each["metadata"]["annotations"] = {"meta.helm.sh/release-name": "grid", "meta.helm.sh/release-namespace": "energy"}
    return found, config


def upgrade(helm, objects, replicas):
    """Renders with `lookup`, as an upgrade does."""
    cluster = Cluster(*objects)
    with serving(cluster) as address:
        words = ("--namespace", "energy", "--dry-run=server", "--kube-apiserver", address)
        words += ("--disable-openapi-validation", "--set", f"replicas={replicas}")
        done = helm.run("template", "grid", CHART, *BASE, *words)
    looked = "GET /apis/apps/v1/namespaces/energy/statefulsets/grid-dream-gateway"
    assert looked in cluster.asked, done.stderr
    return done


@pytest.mark.parametrize(
    ("told", "spec", "pods", "wanted"),
    [
        (3, 3, 3, 5),
        (3, 3, 3, 2),
        (1, 1, 1, 2),
        (3, 5, 5, 5),  # scaled by hand: the pods still share the clusters as 3
        (3, 0, 1, 5),  # the last pod is still stopping
        (3, 3, 0, 5),  # no pod yet, but there may be one at any moment
        (1, 0, 3, 3),  # stopping by way of 0, which the file calls 1
    ],
)
def test_another_number_is_refused_while_there_are_pods(helm, told, spec, pods, wanted):
    done = upgrade(helm, installed(helm, told, spec, pods), wanted)
    count = max(spec, pods)
    said = f"replicas: grid-dream-gateway has {count} pod{'s' * (count > 1)} that share the clusters as {told}; {wanted} would"
    assert done.returncode != 0 and said in done.stderr, done.stderr
    assert f"Set replicas to 0, wait until no pod is left, and then set it to {wanted}" in done.stderr


@pytest.mark.parametrize(
    ("told", "spec", "pods", "wanted"),
    [
        (3, 3, 3, 3),
        (3, 1, 1, 3),  # scaled by hand, and back: the number in the file is the same
        (3, 3, 3, 0),
        (1, 0, 0, 5),
        (3, 0, 0, 5),
    ],
)
def test_what_leaves_each_cluster_one_owner_is_allowed(helm, told, spec, pods, wanted):
    done = upgrade(helm, installed(helm, told, spec, pods), wanted)
    assert done.returncode == 0 and f"replicas: {wanted}\n" in done.stdout, done.stderr


def test_a_first_installation_may_have_any_number(helm):
    assert upgrade(helm, (), 7).returncode == 0


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


def test_the_number_changes_by_way_of_none(helm):
    with release(helm, "--set", "replicas=3") as (cluster, run):

        def pods(number):
            cluster.find("StatefulSet", "grid-dream-gateway")["status"] = {"replicas": number}

        def told():
            toml = cluster.find("ConfigMap", "grid-dream-gateway")["data"]["gateway.toml"]
            return re.search(r"^replicas = (\d+)$", toml, re.MULTILINE)[1]

        pods(3)
        refused = run("upgrade", "--set", "replicas=5")
        assert refused.returncode != 0 and "3 pods that share the clusters as 3; 5 would" in refused.stderr, refused.stderr
        assert told() == "3"
        assert run("upgrade", "--set", "replicas=0").returncode == 0
        assert cluster.find("StatefulSet", "grid-dream-gateway")["spec"]["replicas"] == 0
        assert run("upgrade", "--set", "replicas=5").returncode != 0, "they are still stopping"
        pods(0)
        done = run("upgrade", "--set", "replicas=5")
        assert done.returncode == 0 and told() == "5", done.stderr
        pods(5)
        done = run("rollback", "1")
        assert done.returncode == 0 and told() == "3", "nothing can refuse a rollback, as the README says: " + done.stderr
