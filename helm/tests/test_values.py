"""Values that cannot be: refused before anything is installed, all at once, with the key and what is allowed."""

import json
import re

import pytest
import yaml
from conftest import CHART, HELMS
from test_chart import BASE, check_config, toml_of

SCHEMA = json.loads((CHART / "values.schema.json").read_text())

# What has the wrong shape: unknown keys, wrong types and choices. Helm lists all of them.
MISSHAPEN = {
    "an unknown key": ("replica=2", "replica"),
    "an unknown key of a cluster": ("config.defaults.slot_second=60", "slot_second"),
    "an unknown key further down": ("identity.certManager.isuerRef.name=x", "isuerRef"),
    "text for a number": ("replicas=two", "replicas"),
    "a range of one": ("config.defaults.range_watts={9000}", "range_watts"),
    "a kind of home that is none": ("config.defaults.kind=castle", "kind"),
    "a level that is none": ("config.log.level=loud", "level"),
    "an unknown key of a group": ("config.groups.west.off={riverside}", "off"),
    "a group of one text": ("config.groups.west.of=riverside", "of"),
    "an alert that is none": ("prometheusRule.disabled={DreamNothing}", "disabled"),
    "an override of no alert": ("prometheusRule.overrides.DreamNothing.for=5m", "DreamNothing"),
    "a secret's value": ("broker.credentials.password=hunter2", "password"),
    "a secret without its place in the store": ("externalSecrets.secrets.a.key.property=b", "key"),
    "a store that is none": ("externalSecrets.secretStoreRef.kind=Vault", "kind"),
    "a size that is none": ("persistence.size=large", "size"),
    "a strategy that is none": ("updateStrategy.type=Recreate", "updateStrategy"),
}


@pytest.mark.parametrize("case", MISSHAPEN)
def test_the_schema_refuses(helm, case):
    setting, said = MISSHAPEN[case]
    done = helm.run("template", "grid", CHART, *BASE, "--set", setting)
    assert done.returncode != 0, f"{case} was accepted"
    assert "values don't meet the specifications of the schema" in done.stderr and said in done.stderr, done.stderr


# What has the right shape and cannot be: the setting, and the line that says so.
WRONG = {
    "no broker": ("broker.url=", "broker.url: say where the broker is, such as"),
    "a broker that is none": ("broker.url=https://broker.example", "broker.url: https://broker.example is not a broker's"),
    "a login in the address": ("broker.url=mqtts://user:hunter2@b", "broker.url: the value is not a broker's address"),
    "an IPv6 address without brackets": ("broker.url=mqtts://2001:db8::1", "with an IPv6 address in brackets"),
    "a port beyond all": ("broker.url=mqtts://b:99999", "broker.url: mqtts://b:99999 has the port 99999; use 1 to 65535"),
    "a port of nothing": ("broker.url=mqtts://b:0/", "has the port 0; use 1 to 65535"),
    "no authority for TLS": ("broker.ca.existingSecret=", "broker.ca: mqtts needs the authorities"),
    "a client certificate without TLS": (
        "broker.url=mqtt://b,broker.clientCertificate.existingSecret=c",
        "broker.clientCertificate: only mqtts",
    ),
    "a password in the address of the database": (
        "postgres.url=postgres://dream:hunter2@db/dream,postgres.keys.existingSecret=k",
        "postgres.url: ",
    ),
    "a database without keys": ("postgres.url=postgres://dream@db/dream", "postgres.keys.existingSecret: say which secret"),
    "keys without a database": ("postgres.keys.existingSecret=k", "postgres.url: set it, or leave out the other values"),
    "no identity": ("identity.existingSecret=", "identity.existingSecret: name the secret"),
    "no issuer": (
        "identity.certManager.enabled=true,identity.meterAuthorities.existingSecret=m",
        "identity.certManager.issuerRef.name: say which",
    ),
    "no issuer for the page": ("http.tls.certManager.enabled=true", "http.tls.certManager.issuerRef.name: say which"),
    "no issuer for the broker": (
        "broker.clientCertificate.certManager.enabled=true",
        "broker.clientCertificate.certManager.issuerRef.name: say which",
    ),
    "a client certificate of cert-manager without TLS": (
        "broker.url=mqtt://b,broker.clientCertificate.certManager.enabled=true,"
        "broker.clientCertificate.certManager.issuerRef.name=i",
        "broker.clientCertificate: only mqtts",
    ),
    "no store for secrets": (
        "externalSecrets.secrets.a.key.key=b",
        "externalSecrets.secretStoreRef.name: say which store has the secrets",
    ),
    "a secret of nothing": (
        "externalSecrets.secretStoreRef.name=vault,externalSecrets.secrets.a=null",
        "externalSecrets.secrets.a: has no keys",
    ),
    "authorities without a role": (
        "identity.authorities.existingSecret=a",
        "identity.authorities: is two settings now; use identity.meterAuthorities",
    ),
    "no authority of meters beside cert-manager": (
        "identity.certManager.enabled=true,identity.certManager.issuerRef.name=i",
        "identity.meterAuthorities: cert-manager's secret has the gateway's authority alone",
    ),
    "no cluster": ("config.clusters=null", "config.clusters: there is none"),
    "a cluster's reserved name": ("config.clusters.gateway.epsilon=1", "config.clusters.gateway: this name is reserved"),
    "a cluster's name in capitals": ("config.clusters.North.epsilon=1", "config.clusters.North: a name has 1 to 64 small"),
    "too short a slot": (
        "config.defaults.slot_seconds=0",
        "config.defaults.slot_seconds: 0 is not allowed; use 1 to 86400",
    ),
    "a slot without room for windows": (
        "config.clusters.riverside.slot_seconds=7",
        "config.clusters.riverside: in a slot of 7 s a window, a tenth of it, is shorter than a second",
    ),
    "windows longer than a slot": (
        "config.defaults.reading_seconds=600",
        "config.clusters.riverside: 2 attempts of 600 + 60 s do not fit a slot of 600 s",
    ),
    "windows of two clusters": (
        "config.defaults.attempts=6,config.clusters.b.epsilon=1",
        "config.clusters.b, config.clusters.riverside: 6 attempts of 60 + 60 s do not fit",
    ),
    "a committee with mask partners": (
        "config.defaults.scheme=committee,config.clusters.riverside.partners=60",
        "config.clusters.riverside: a committee has no mask partners; leave partners out",
    ),
    "too many missing": ("config.defaults.max_missing=0.3", "config.defaults.max_missing: 0.3 is not allowed; use"),
    "too few malicious": ("config.defaults.max_malicious=0.05", "config.defaults.max_malicious: 0.05 is not allowed; use"),
    "no epsilon": ("config.defaults.epsilon=0", "config.defaults.epsilon: 0 is not allowed; use a decimal above 0"),
    "an epsilon of too many places": ("config.defaults.epsilon=0.1234567", "0.1234567 is not allowed; use a decimal"),
    "an epsilon with an exponent": ("config.defaults.epsilon=1e3", "config.defaults.epsilon: 1e3 is not allowed"),
    "a day beyond all": ("config.defaults.day_epsilon=2000000", "config.defaults.day_epsilon: 2000000 is not allowed"),
    "a range without 0": ("config.defaults.range_watts={10,20}", "config.defaults.range_watts: [10, 20] is not allowed"),
    "a group of a cluster that is none": (
        "config.groups.west.of={riverside,old-twon}",
        "config.groups.west.of: old-twon is neither a cluster nor a group; correct it, or leave it out",
    ),
    "a group with a cluster's name": (
        "config.groups.riverside.of={riverside}",
        "config.groups.riverside: a cluster has this name; choose another",
    ),
    "a group's name in capitals": ("config.groups.West.of={riverside}", "config.groups.West: a name has 1 to 64 small"),
    "a group's reserved name": ("config.groups.gateway.of={riverside}", "config.groups.gateway: a name has 1 to 64 small"),
    "lists from nowhere": ("config.clusters.riverside.allow_file=a", "the lists that the cluster riverside names"),
    "lists of all clusters from nowhere": (
        "config.clusters.defaults.epsilon=0.5,config.defaults.deny_file=a",
        "the lists that config.defaults names",
    ),
    "lists of a cluster called defaults from nowhere": (
        "config.defaults.epsilon=0.5,config.clusters.defaults.allow_file=a",
        "the lists that the cluster defaults names",
    ),
    "an id that no certificate has": ("config.id=GW 1", 'config.id: "GW 1" is not allowed; use 1 to 60 small letters'),
    "a digest that is none": ("image.digest=abc", 'image.digest: "abc" is not allowed; use sha256:'),
    "too many replicas": ("replicas=1001", "replicas: 1001 is not allowed; use 0 to 1000"),
    "replicas that are not said": ("replicas=null", "replicas: is missing; use 0 to 1000"),
    "no replica, and volumes that go with them": (
        "replicas=0,persistence.whenDeleted=Delete",
        "persistence.whenDeleted: Delete deletes every volume with the StatefulSet, which goes away while replicas is 0",
    ),
    "a privileged port": ("http.port=80", "http.port: 80 is not allowed; use 1024 to 65535"),
    "a port of the service beyond all": ("service.port=99999", "service.port: 99999 is not allowed; use 1 to 65535"),
    "two successes of a start": (
        "startupProbe.successThreshold=2",
        "startupProbe.successThreshold: 2 is not allowed; use 1",
    ),
    "two successes of a life": (
        "livenessProbe.successThreshold=2",
        "livenessProbe.successThreshold: 2 is not allowed; use 1",
    ),
    "a probe without a period": (
        "readinessProbe.periodSeconds=0",
        "readinessProbe.periodSeconds: 0 is not allowed; use 1 to 3600",
    ),
    "more memory than the limit": (
        "resources.requests.memory=1Gi",
        "resources.requests.memory: 1Gi is more than resources.limits.memory, 512Mi",
    ),
    "more processors than the limit": (
        "resources.requests.cpu=1,resources.limits.cpu=900m",
        "resources.requests.cpu: 1 is more than resources.limits.cpu, 900m",
    ),
    "more for the simulator than its limit": (
        "simulator.resources.requests.memory=1100000000",
        "simulator.resources.requests.memory: 1100000000 is more than simulator.resources.limits.memory, 1Gi",
    ),
    "no room for a store": ("persistence.size=0", "persistence.size: 0 is too small for a store; use 1Mi or more"),
    "a tenth of a byte for a store": ("persistence.size=100m", "persistence.size: 100m is too small for a store"),
    "a simulator of nothing": ("simulator.enabled=true", "simulator: set existingSecret"),
}


def refusal(helm, *settings):
    """The lines in which the chart says what is wrong."""
    done = helm.run("template", "grid", CHART, *BASE, *(word for each in settings for word in ("--set", each)))
    assert done.returncode != 0, f"{settings} was accepted"
    said = re.search(r"Invalid values:\n((?:  .+\n)+)", done.stderr)
    assert said and "hunter2" not in done.stderr, done.stderr
    return [line.strip() for line in said[1].splitlines()]


@pytest.mark.parametrize("case", WRONG)
def test_one_line_says_what_is_wrong(helm, case):
    setting, said = WRONG[case]
    (line,) = refusal(helm, setting)
    assert said in line, line


def test_a_group_of_nothing_is_refused(helm):
    done = helm.run("template", "grid", CHART, *BASE, "--set-json", 'config.groups={"west": {"of": []}}')
    assert done.returncode != 0 and "config.groups.west.of: names nothing; list the clusters" in done.stderr, done.stderr


def test_all_mistakes_are_told_at_once(helm):
    names = ["an IPv6 address without brackets", "a cluster's reserved name", "two successes of a start", "no identity"]
    names += ["more memory than the limit", "no room for a store", "too many missing", "a slot without room for windows"]
    lines = refusal(helm, *(WRONG[name][0] for name in names))
    assert len(lines) == len(names), lines
    for name in names:
        assert [line for line in lines if WRONG[name][1] in line], (name, lines)


# Settings of a cluster on both sides of a limit. Chart and gateway must agree.
LIMITS = [
    {"slot_seconds": 9},
    {"slot_seconds": 10},
    {"slot_seconds": 7, "reading_seconds": 1, "reveal_seconds": 1},
    {"slot_seconds": 86400},
    {"slot_seconds": 86401},
    {"attempts": 5},
    {"attempts": 6},
    {"reading_seconds": 240},
    {"reading_seconds": 241},
    {"min_members": 1},
    {"min_members": 49},
    {"min_members": 50},
    {"meter_policy": "trial", "min_members": 2},
    {"meter_policy": "community"},
    {"meter_policy": "community", "min_members": 22},
    {"meter_policy": "community", "min_members": 23},
    {"meter_policy": "lenient"},
    {"list_slots": 3},
    {"range_watts": [0, 0]},
    {"range_watts": [-1, 0]},
    {"epsilon": "8000"},
    {"epsilon": "8001"},
    {"epsilon": "8001", "kind": "electric-heat"},
    {"epsilon": "8001", "day_epsilon": "4"},
    {"epsilon": "8001", "day_epsilon": "0"},
    {"epsilon": "1000000"},
    {"epsilon": "1000001"},
    {"epsilon": "0.000001", "range_watts": [0, 1]},
    {"max_missing": "0.2"},
    {"max_missing": "0.25"},
    {"max_malicious": "0.1"},
    {"max_malicious": "0.04"},
    {"scheme": "auto"},
    {"scheme": "committee"},
    {"scheme": "pairwise"},
    {"scheme": "both"},
    {"scheme": "committee", "partners": 0},
    {"scheme": "committee", "partners": 60},
    {"scheme": "committee", "reading_seconds": 500},
    {"scheme": "committee", "reading_seconds": 541},
    {"scheme": "auto", "reading_seconds": 500},
]


@pytest.mark.parametrize("settings", LIMITS, ids=json.dumps)
def test_chart_and_gateway_agree_about_a_cluster(settings, tmp_path):
    helm = HELMS[1]
    done = helm.run("template", "grid", CHART, *BASE, "--set-json", f"config.clusters.riverside={json.dumps(settings)}")
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    gateway = check_config(toml_of(helm.objects(*BASE)) + lines, tmp_path)
    assert (done.returncode == 0) == (gateway.returncode == 0), done.stderr + gateway.stderr


ADDRESSES = ["mqtt://b", "mqtts://b/", "mqtts://b:1", "mqtts://b:65535", "mqtts://[2001:db8::1]:8883", "mqtts://[::1]/"]
NO_ADDRESSES = ["mqtts://", "mqtts://:8883", "mqtts://b:", "mqtts://b:x", "mqtts://b:65536", "mqtts://b/c", "mqtts://::1"]


@pytest.mark.parametrize("url", ADDRESSES + NO_ADDRESSES)
def test_chart_and_gateway_agree_about_an_address(url, tmp_path):
    helm = HELMS[1]
    done = helm.run("template", "grid", CHART, *BASE, "--set", f"broker.url={url}")
    toml = toml_of(helm.objects(*BASE)).replace("mqtts://broker.example:8883", url)
    toml = toml if url.startswith("mqtts") else re.sub(r"^ca = .*$", "", toml, flags=re.MULTILINE)
    gateway = check_config(toml, tmp_path)
    assert (done.returncode == 0, gateway.returncode == 0) == (url in ADDRESSES,) * 2, done.stderr + gateway.stderr


def integers(schema, path=()):
    """The paths of all numbers that have no bounds in the schema itself."""
    schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    if schema.get("type") == "integer" and "minimum" not in schema:
        yield ".".join(path)
    for name, below in schema.get("properties", {}).items():
        yield from integers(below, (*path, name))


def test_every_number_has_bounds():
    text = (CHART / "templates" / "_checks.tpl").read_text()
    tables = {
        name: yaml.safe_load(re.search(rf'define "dream\.{name}" -}}}}\n(.*?)\n{{{{- end', text, re.DOTALL)[1])
        for name in ("numbers", "probeNumbers", "clusterNumbers")
    }
    bounded = set(tables["numbers"]) | {f"config.defaults.{name}" for name in tables["clusterNumbers"]}
    bounded |= {f"{probe}Probe.{name}" for probe in ("startup", "liveness", "readiness") for name in tables["probeNumbers"]}
    assert set(integers(SCHEMA)) == bounded
