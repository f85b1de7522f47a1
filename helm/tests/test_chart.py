"""The chart: what it renders is what Kubernetes and the gateway accept, and what it should not take it refuses."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys

import jsonschema
import kubernetes_validate
import pytest
import yaml
from conftest import CHART, CI_VALUES, HELMS, NODE, ROOT, alerts, program

GOLDEN = ROOT / "helm" / "tests" / "golden"
BASE = ("-f", CHART / "ci" / "minimal-values.yaml")
CUSTOM = {"ServiceMonitor", "PrometheusRule", "Certificate", "ExternalSecret"}

each_values = pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.stem)


def of_kind(objects, kind, name=None):
    found = [each for each in objects if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    assert len(found) == 1, [each["metadata"]["name"] for each in found]
    return found[0]


def gateway_pod(objects):
    return of_kind(objects, "StatefulSet")["spec"]["template"]["spec"]


@each_values
def test_lint_finds_nothing(helm, values):
    said = helm.ok("lint", "--strict", CHART, "-f", values)
    assert "[WARNING]" not in said and "[ERROR]" not in said, said


@each_values
def test_manifests_are_the_golden_ones(helm, values):
    """Both versions of helm render the same. DREAM_BLESS=1 writes them anew: read the difference."""
    golden = GOLDEN / f"{values.stem.removesuffix('-values')}.yaml"
    # Dashboards and rules are files of their own and would be here twice.
    objects = helm.objects("-f", values, "--set", "dashboards.enabled=false,prometheusRule.enabled=false")
    objects.sort(key=lambda each: (each["kind"], each["metadata"]["name"]))
    rendered = yaml.safe_dump_all(objects, sort_keys=True, width=1000)
    if os.environ.get("DREAM_BLESS") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered)
    assert rendered == golden.read_text(), f"{golden} differs: DREAM_BLESS=1 writes it anew"


@each_values
@pytest.mark.parametrize("version", ["1.27", "1.35"])
def test_kubernetes_knows_every_field(helm, values, version):
    for each in helm.objects("-f", values):
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)


def test_a_misspelt_field_would_be_noticed(helm):
    broken = of_kind(helm.objects(*BASE), "StatefulSet")
    broken["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.35", strict=True)


def custom_check(objects):
    script = (ROOT / "helm" / "tests" / "custom.mjs").read_text()
    command = ["node", "--input-type=module", "--eval", script]
    return subprocess.run(command, input=json.dumps(objects), capture_output=True, text=True, cwd=NODE)


def test_the_operators_know_every_field_of_theirs(helm):
    objects = [each for values in CI_VALUES for each in helm.objects("-f", values) if each["kind"] in CUSTOM]
    done = custom_check(objects)
    assert done.returncode == 0 and set(done.stdout.split()) == CUSTOM, done.stdout + done.stderr
    certificate = of_kind(objects, "Certificate", "grid-dream-gateway-http")
    certificate["spec"]["usages"] = ["digital-signature"]
    assert custom_check([certificate]).returncode != 0, "a usage that is none is noticed"
    secret = of_kind(objects, "ExternalSecret", "gateway-access")
    secret["spec"]["data"][0]["remoteRef"] = {"property": "access"}
    assert custom_check([secret]).returncode != 0, "a reference to nothing is noticed"


@each_values
def test_every_object_has_a_name_of_its_own_the_namespace_and_the_labels(helm, values):
    objects = [each for each in helm.objects("-f", values) if each["metadata"]["name"] not in ("more", "from-text")]
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names)), names
    for each in objects:
        meta = each["metadata"]
        assert meta["namespace"] == "energy" and len(meta["name"]) <= 63, meta
        assert meta["labels"]["app.kubernetes.io/instance"] == "grid", meta


def test_long_names_of_releases_fit(helm):
    for each in helm.objects(
        *BASE,
        "--set",
        "dashboards.enabled=true,simulator.enabled=true,simulator.existingSecret=s",
        name="a-name-of-a-release-as-long-as-helm-allows-it-to-be",
    ):
        # A pod's name is followed by an ordinal, and by a hash in a label: 52 characters are safe for a StatefulSet.
        assert len(each["metadata"]["name"]) <= (52 if each["kind"] == "StatefulSet" else 63)


def test_a_package_has_all_of_it(helm, tmp_path):
    helm.ok("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    full = ("-f", CHART / "ci" / "full-values.yaml")
    assert helm.ok("template", "grid", package, "--namespace", "energy", *full) == helm.template(*full)


# ---- The gateway's configuration ----------------------------------------------------------------------------------------


def check_config(toml, tmp_path, **environment):
    lists = tmp_path / "lists"
    lists.mkdir(exist_ok=True)
    for name in ("old-town.allow", "old-town.deny"):
        (lists / name).write_text("".join(f"{name[9]}-{number:04}\n" for number in range(100)))
    path = tmp_path / "gateway.toml"
    path.write_text(toml.replace("/etc/dream/lists", str(lists)))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DREAM_")} | environment
    command = [program("dream-gateway"), "check-config", "--without-files", "--ordinal", "0", "--config", path]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def toml_of(objects):
    """What the gateway reads, and before it the check."""
    read, checked = (of_kind(objects, "ConfigMap", f"grid-dream-gateway{name}")["data"] for name in ("", "-check-config"))
    assert read == checked
    return read["gateway.toml"]


@each_values
def test_the_gateway_accepts_the_configuration(helm, values, tmp_path):
    objects = helm.objects("-f", values)
    names = {entry["name"] for entry in gateway_pod(objects)["containers"][0].get("env", [])}
    environment = {name: "grid" for name in names if name.startswith("DREAM_")} | {"DREAM_REPLICAS": "3"}
    done = check_config(toml_of(objects), tmp_path, **environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_setting_arrives_as_written(helm, tmp_path):
    toml = toml_of(helm.objects("-f", CHART / "ci" / "full-values.yaml"))
    done = check_config(toml, tmp_path, DREAM_BROKER_USERNAME="grid", DREAM_REPLICAS="3")
    for line in (
        "gateway   grid-7, replica 0 of 3",
        "mqtts://broker.example:8883 with a client certificate",
        "0.0.0.0:9464",
        "clusters  3",
    ):
        assert line in done.stdout, done.stdout + done.stderr
    for line in ('epsilon = "0.5"', 'epsilon = "0.25"', "range_watts = [-5000, 9000]", 'max_missing = "0.05"'):
        assert line in toml, toml


def test_an_epsilon_is_written_out(helm):
    """As a number of JSON, which helm reads as floating point."""
    for epsilon, written in (("999999", "999999"), ("0.0001", "0.0001"), ('"1000000"', "1000000")):
        wide = f"config.defaults.epsilon={epsilon},config.defaults.range_watts=[0,1000000]"
        toml = toml_of(helm.objects(*BASE, "--set-json", wide))
        assert f'epsilon = "{written}"' in toml, toml


def test_a_cluster_may_be_called_defaults(helm, tmp_path):
    settings = "config.clusters.defaults.epsilon=0.5,config.defaults.slot_seconds=300"
    toml = toml_of(helm.objects(*BASE, "--set", settings))
    assert "[defaults]\nslot_seconds = 300\n\n[clusters.defaults]\nepsilon = \"0.5\"\n" in toml, toml
    assert check_config(toml, tmp_path).returncode == 0


def test_nodes_of_a_broker_cluster_are_tried_after_the_first(helm, tmp_path):
    toml = toml_of(helm.objects(*BASE, "--set-json", 'broker.urls=["mqtts://b2.example", "mqtts://b3.example"]'))
    url = re.search(r'^urls = \["([^"]+)","mqtts://b2.example","mqtts://b3.example"\]$', toml, re.MULTILINE)
    assert url and "\nurl = " not in toml, toml
    assert check_config(toml, tmp_path).returncode == 0
    mixed = helm.objects(*BASE, "--set-json", 'broker.urls=["mqtt://b2.example"]')
    assert "mixes mqtt:// and mqtts://" in check_config(toml_of(mixed), tmp_path).stderr


def test_the_configuration_has_every_key_that_the_gateway_has(helm):
    """A key of docs/configuration.md that the chart could not set would need another way in."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", text, re.MULTILINE))
    chart = (CHART / "templates" / "_config.tpl").read_text() + (CHART / "values.schema.json").read_text()
    missing = {key for key in documented if key.split(".")[-1] not in chart} - {"ordinal", "broker.username"}
    assert documented and not missing, missing


def test_a_gateway_refuses_what_only_it_can_know_to_be_wrong(helm, tmp_path):
    """The tests above can fail: too few partners pass the chart's own checks and not the gateway."""
    toml = toml_of(helm.objects(*BASE, "--set", "config.defaults.partners=1"))
    done = check_config(toml, tmp_path)
    assert done.returncode == 2 and "mask partners" in done.stderr, done.stderr


# ---- What must hold ------------------------------------------------------------------------------------------------------


@each_values
def test_pods_are_hardened(helm, values):
    for each in helm.objects("-f", values):
        if each["kind"] not in ("StatefulSet", "Deployment", "Job", "Pod"):
            continue
        pod = each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"] + pod.get("initContainers", []):
            if container["name"] in ("sidecar", "wait"):  # of ci/full-values.yaml
                continue
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_replicas_share_an_id_and_are_told_their_number(helm):
    objects = helm.objects(*BASE, "--set", "replicas=4")
    assert of_kind(objects, "StatefulSet")["spec"]["replicas"] == 4
    assert "\nreplicas" not in toml_of(objects) and "\nordinal" not in toml_of(objects)
    hook = of_kind(objects, "Job")["spec"]["template"]["spec"]
    for pod in (gateway_pod(objects), hook):
        assert {"name": "DREAM_REPLICAS", "value": "4"} in pod["containers"][0]["env"]
    test = of_kind(objects, "Pod")["spec"]["containers"][0]["command"][-1]
    assert [
        f"grid-dream-gateway-{ordinal}.grid-dream-gateway-headless:9464/readyz" in test for ordinal in range(5)
    ] == [True] * 4 + [False]


def test_a_changed_configuration_rolls_the_pods_and_nothing_else_does(helm):
    def checksum(*args):
        template = of_kind(helm.objects(*BASE, *args), "StatefulSet")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum("--set", "service.type=NodePort")
    assert checksum() != checksum("--set", "config.log.level=debug")


def test_no_pod_changes_with_the_version_of_the_chart_alone(helm, tmp_path):
    """Or every new version would restart all gateways."""
    shutil.copytree(CHART, tmp_path / "chart")
    chart = tmp_path / "chart" / "Chart.yaml"
    chart.write_text(re.sub(r"^version: .*$", "version: 9.8.7", chart.read_text(), flags=re.MULTILINE))
    values = ("-f", CHART / "ci" / "trial-values.yaml", "--set", "persistence.enabled=true")
    before, after = (
        [each for each in yaml.safe_load_all(helm.ok("template", "grid", path, *values)) if each]
        for path in (CHART, tmp_path / "chart")
    )
    assert before != after, "other objects say which version they are of"
    for kind in ("StatefulSet", "Deployment"):
        assert of_kind(before, kind)["spec"] == of_kind(after, kind)["spec"]


def test_every_pod_is_pulled_and_placed_alike(helm):
    keys = ("imagePullSecrets", "nodeSelector", "tolerations", "dnsConfig")
    settings = ("-f", CHART / "ci" / "full-values.yaml", "--set", "simulator.enabled=true,simulator.existingSecret=s")
    pods = {}
    for each in helm.objects(*settings):
        if each["kind"] in ("StatefulSet", "Deployment", "Job"):
            pods[each["kind"]] = each["spec"]["template"]["spec"]
        elif each["kind"] == "Pod":
            pods["Pod"] = each["spec"]
    assert len(pods) == 4
    for kind, pod in pods.items():
        assert [pod.get(key) for key in keys] == [pods["StatefulSet"][key] for key in keys], kind


def test_no_replica_is_a_way_to_stop(helm, tmp_path):
    objects = helm.objects(*BASE, "--set", "replicas=0")
    assert not [each for each in objects if each["kind"] == "StatefulSet"]
    assert check_config(toml_of(objects), tmp_path).returncode == 0
    assert not [each for each in objects if each["kind"] == "Pod"], "there is nothing that `helm test` could ask"


def test_every_port_says_its_protocol(helm):
    objects = helm.objects("-f", CHART / "ci" / "full-values.yaml")
    ports = [port for each in objects if each["kind"] == "Service" for port in each["spec"]["ports"]]
    ports += gateway_pod(objects)["containers"][0]["ports"]
    assert len(ports) == 4 and {port["protocol"] for port in ports} == {"TCP"}


def test_every_volume_that_is_mounted_exists_and_every_file_of_the_configuration_is_mounted(helm):
    for values in CI_VALUES:
        objects = helm.objects("-f", values)
        pod, claims = gateway_pod(objects), of_kind(objects, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
        volumes = {each["name"] for each in pod["volumes"]} | {each["metadata"]["name"] for each in claims}
        mounts = pod["containers"][0]["volumeMounts"]
        assert {each["name"] for each in mounts} == volumes
        roots = tuple(each["mountPath"] + "/" for each in mounts)
        paths = re.findall(r'"(/[^"]+)"', toml_of(objects))
        assert paths and all(path.startswith(roots) for path in paths), (paths, roots)


SECURED = (
    "broker.url=mqtts://b,broker.ca.existingSecret=authority,broker.ca.key=root.pem,broker.credentials.existingSecret=login"
)


def simulator_pod(helm, settings):
    objects = helm.objects("-f", CHART / "ci" / "trial-values.yaml", "--set", settings)
    deployment = of_kind(objects, "Deployment")
    kubernetes_validate.validate(deployment, "1.35", strict=True)
    return deployment["spec"]["template"]["spec"]


def test_the_simulator_knows_its_arguments(helm):
    def accepted(*more):
        command = [program("meter-sim"), *arguments, *more, "--help"]
        return subprocess.run(command, capture_output=True).returncode == 0

    for settings in ("", SECURED):
        arguments = simulator_pod(helm, settings)["containers"][0]["args"]
        assert arguments[0] == "run" and accepted() and not accepted("--meterz", "7")


def test_the_simulator_uses_the_broker_as_the_gateway_does(helm):
    plain = simulator_pod(helm, "")["containers"][0]
    assert not {"--ca", "--username", "--password-file"} & set(plain["args"]) and "env" not in plain
    for settings in (SECURED, SECURED.replace("ca.existingSecret", "ca.existingConfigMap")):
        pod = simulator_pod(helm, settings)
        meters = pod["containers"][0]
        options = dict(zip(meters["args"], meters["args"][1:]))
        assert options["--ca"] == "/etc/dream/broker-ca/root.pem"
        assert options["--password-file"] == "/etc/dream/broker-credentials/password"
        (variable,) = meters["env"]
        assert options["--username"] == f"$({variable['name']})"
        assert variable["valueFrom"]["secretKeyRef"] == {"name": "login", "key": "username"}
        mounts = {each["mountPath"]: each["name"] for each in meters["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert set(mounts.values()) <= set(volumes)
        assert "authority" in str(volumes[mounts["/etc/dream/broker-ca"]])
        assert volumes[mounts["/etc/dream/broker-credentials"]]["secret"]["secretName"] == "login"


def test_no_secret_is_in_the_values_or_the_manifests(helm):
    for values in CI_VALUES:
        assert not [each for each in helm.objects("-f", values) if each["kind"] == "Secret"]


def test_the_network_policy_lets_only_the_broker_and_dns_out(helm):
    for url, port in (("mqtt://b", 1883), ("mqtts://b:18883", 18883), ("mqtts://[2001:db8::1]", 8883)):
        objects = helm.objects(*BASE, "--set", f"broker.url={url}")
        egress = of_kind(objects, "NetworkPolicy")["spec"]["egress"]
        assert [rule["ports"][0]["port"] for rule in egress] == [53, port]
    closed = helm.objects(*BASE, "--set-json", "networkPolicy.from=[]")
    assert of_kind(closed, "NetworkPolicy")["spec"]["ingress"] == []
    rule = '{"from":[{"podSelector":{}}],"ports":[{"port":4180,"protocol":"TCP"}]}'
    proxy = helm.objects(*BASE, "--set-json", "networkPolicy.from=[]", "--set-json", f"networkPolicy.extraIngress=[{rule}]")
    assert of_kind(proxy, "NetworkPolicy")["spec"]["ingress"] == [json.loads(rule)]


def test_a_store_in_a_database_needs_no_volume_and_may_be_reached(helm):
    objects = helm.objects("-f", CHART / "ci" / "postgres-values.yaml")
    pod, spec = gateway_pod(objects), of_kind(objects, "StatefulSet")["spec"]
    assert "volumeClaimTemplates" not in spec and "persistentVolumeClaimRetentionPolicy" not in spec
    volumes = {each["name"]: each.get("secret", {}) for each in pod["volumes"]}
    assert "store" not in volumes and volumes["store-keys"] == {"secretName": "dream-store-keys", "defaultMode": 0o440}
    toml = toml_of(objects)
    assert "path = " not in toml.split("[store]")[1].split("[http]")[0], toml
    assert toml.index("store-2.key") < toml.index("store-1.key"), "the first key seals"
    egress = of_kind(objects, "NetworkPolicy")["spec"]["egress"]
    assert [rule["ports"][0]["port"] for rule in egress] == [53, 8883, 5432]


def test_the_service_monitor_finds_one_service(helm):
    objects = helm.objects(*BASE, "--set", "serviceMonitor.enabled=true")
    wanted = of_kind(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    services = [each for each in objects if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()]
    assert [each["metadata"]["name"] for each in services] == ["grid-dream-gateway"]


def test_the_rule_object_has_every_rule_and_heeds_the_values(helm):
    plain = of_kind(helm.objects(*BASE, "--set", "prometheusRule.enabled=true"), "PrometheusRule")
    source = yaml.safe_load((CHART / "rules" / "dream-gateway.rules.yaml").read_text())
    assert plain["spec"]["groups"] == source["groups"]
    full = of_kind(helm.objects("-f", CHART / "ci" / "full-values.yaml"), "PrometheusRule")
    rules = {rule["alert"]: rule for group in full["spec"]["groups"] for rule in group["rules"] if "alert" in rule}
    assert set(alerts()) - set(rules) == {"DreamSlotsFailing"}
    changed = rules["DreamEpsilonDayAbovePolicy"]
    assert (changed["expr"], changed["labels"]) == (
        "dream:cluster_epsilon_day:max > 300",
        {"severity": "info", "team": "grid"},
    )
    assert rules["DreamBrokerDown"]["labels"] == {"severity": "critical", "team": "grid"}
    assert all(
        rule["annotations"]["runbook_url"].startswith("https://wiki.example/dream/operations#")
        for rule in rules.values()
    )


def test_dashboards_arrive_whole(helm):
    objects = helm.objects(*BASE, "--set", "dashboards.enabled=true")
    maps = [each for each in objects if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    carried = {name.removeprefix("dream-"): text for each in maps for name, text in each["data"].items()}
    files = {path.name: path.read_text() for path in (CHART / "dashboards").glob("*.json")}
    assert {name: text.strip() for name, text in carried.items()} == {
        name: text.strip() for name, text in files.items()
    }
    assert sorted(files) == ["clusters.json", "gateway.json", "groups.json", "privacy.json"]


def test_notes_say_what_to_do_next():
    def notes(*args):
        # Helm 4 shows the notes without a cluster to talk to; helm 3 does not, but renders them in `lint`.
        said = HELMS[1].ok("install", "grid", CHART, "--namespace", "energy", "--dry-run=client", *args)
        return said.split("NOTES:")[1]

    plain = notes(*BASE)
    for words in (
        "helm -n energy test grid",
        "gw-1-0 their rights",
        "--set replicas=0",
        "--for=delete pod -l app.kubernetes.io/instance=grid,app.kubernetes.io/component=gateway --timeout=75s",
        "rollout status statefulset/grid-dream-gateway --timeout=360s",
        "describe pod -l",
        "get events",
        "loses its open\nslot",
        "serviceMonitor.enabled",
    ):
        assert words in plain, plain
    assert "SIMULATED METERS" in notes("-f", CHART / "ci" / "trial-values.yaml")
    many = notes("-f", CHART / "ci" / "full-values.yaml")
    assert "3 gateways share 3 clusters" in many and "grid-7-0 to grid-7-2" in many, many
    stopped = notes(*BASE, "--set", "replicas=0")
    assert "no gateway runs" in stopped and "rollout status" not in stopped, stopped
    assert "OnDelete" in notes(*BASE, "--set", "updateStrategy.type=OnDelete") and "OnDelete" not in plain
    restart = "kubectl -n energy rollout restart statefulset/grid-dream-gateway"
    assert "config map meter-lists when it starts" in many and restart in many and restart not in plain, many


def test_an_id_of_digits_stays_text(helm):
    values = ("-f", CHART / "ci" / "cert-manager-values.yaml")
    for digits in ("7", "1e3", "007"):
        objects = helm.objects(*values, "--set-string", f"config.id={digits}")
        certificate = of_kind(objects, "Certificate", "grid-dream-gateway")["spec"]
        assert (certificate["commonName"], certificate["uris"]) == (digits, [f"urn:dream:gateway:{digits}"])


# ---- Files that belong together --------------------------------------------------------------------------------------------


def test_the_schema_is_sound_and_has_every_value():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) | {"global"} == set(schema["properties"])
    assert schema["definitions"]["alert"]["enum"] == list(alerts())


def test_the_icon_is_that_of_the_page():
    icon = yaml.safe_load((CHART / "Chart.yaml").read_text())["icon"]
    (page,) = (ROOT / "gateway" / "src").rglob("icon.svg")
    assert base64.b64decode(icon.removeprefix("data:image/svg+xml;base64,")).decode() == page.read_text().strip()


def test_the_examples_in_the_readme_can_be_installed(helm, tmp_path):
    """Each alone, over the first, which is whole."""
    texts = re.findall(r"^```yaml\n(.*?)^```$", (CHART / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(texts) >= 2
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
        objects = helm.objects("-f", tmp_path / "0.yaml", "-f", tmp_path / f"{number}.yaml")
        for each in objects:
            if each["kind"] not in CUSTOM:
                kubernetes_validate.validate(each, "1.35", strict=True)
        peers = of_kind(objects, "NetworkPolicy")["spec"]["ingress"][0]["from"]
        assert {"kubernetes.io/metadata.name": "monitoring"} in [
            each.get("namespaceSelector", {}).get("matchLabels") for each in peers
        ], "Prometheus in another namespace is let in"


def test_the_readme_is_made_of_the_comments():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "chart-readme", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_version_is_that_of_the_packages():
    workspace = (ROOT / "Cargo.toml").read_text()
    version = re.search(r'^version = "([^"]+)"', workspace, re.MULTILINE)[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version
    assert f"### {chart['version']}" in (CHART / "README.md").read_text(), "every version has upgrade notes"
