"""The other ways to install: the systemd unit and the compose file."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import check_jsonschema
import jsonschema
import pytest
import yaml
from conftest import CHART, ROOT, RULES, program
from lab import PATIENCE_SECONDS, free_port, running, until

UNITS = ROOT / "docs" / "systemd"
UNIT = UNITS / "dream-gateway.service"
COMPOSE = ROOT / "docs" / "compose"
BUILTIN = pathlib.Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor" / "compose-spec.json"


def compose():
    return yaml.safe_load((COMPOSE / "compose.yaml").read_text())


def verify(text, tmp_path, name="dream-gateway"):
    """The unit as systemd sees it, with the binary that there is."""
    path = tmp_path / f"{name}.service"
    path.write_text(text.replace(f"/usr/local/bin/{name}", program(name)))
    return subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)


needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")


@needs_systemd
@pytest.mark.parametrize("name", ["dream-gateway", "dream-meter"])
def test_systemd_accepts_the_unit(tmp_path, name):
    done = verify((UNITS / f"{name}.service").read_text(), tmp_path, name)
    assert done.returncode == 0 and f"{name}.service" not in done.stderr, done.stderr


@needs_systemd
def test_systemd_notices_a_mistake_in_the_unit(tmp_path):
    assert (
        "dream-gateway.service"
        in verify(UNIT.read_text().replace("ProtectHome=yes", "ProtectHome=perhaps"), tmp_path).stderr
    )


@needs_systemd
@pytest.mark.parametrize("name", ["dream-gateway", "dream-meter"])
def test_the_unit_exposes_little(tmp_path, name):
    path = tmp_path / f"{name}.service"
    path.write_text((UNITS / f"{name}.service").read_text())
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_the_unit_waits_longer_than_the_gateway_takes_to_stop():
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)[1])
    assert stop > 10, "the default of shutdown_grace_seconds"


def test_the_compose_file_is_of_the_specification():
    schema = json.loads(BUILTIN.read_text())
    jsonschema.validate(compose(), schema)
    broken = compose()
    broken["services"]["gateway"]["volums"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_everything_that_compose_mounts_exists():
    for name, service in compose()["services"].items():
        for volume in service["volumes"]:
            source = volume.rsplit(":", 2)[0] if volume.endswith(":ro") else volume.rsplit(":", 1)[0]
            if source.startswith(".") and "TRIAL" not in source and "/state/" not in source:
                assert (COMPOSE / source).exists(), (name, source)


def test_compose_shows_the_dashboards_and_the_rules():
    services = compose()["services"]
    mounts = {volume.split(":")[0] for service in services.values() for volume in service["volumes"]}
    assert (COMPOSE / "../../helm/dream-gateway/dashboards").resolve() == (CHART / "dashboards").resolve()
    assert {"../../helm/dream-gateway/dashboards", f"../../helm/dream-gateway/rules/{RULES.name}"} <= mounts
    provider = yaml.safe_load((COMPOSE / "grafana-dashboards.yaml").read_text())["providers"][0]
    assert f"../../helm/dream-gateway/dashboards:{provider['options']['path']}:ro" in services["grafana"]["volumes"]
    source = yaml.safe_load((COMPOSE / "grafana-datasource.yaml").read_text())["datasources"][0]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"


def test_prometheus_accepts_its_configuration(tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(COMPOSE / "prometheus.yml", tmp_path)
    done = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    targets = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0][
        "targets"
    ]
    assert targets == ["gateway:9464"]


def test_meters_and_gateway_work_with_the_broker_of_the_compose_file(tmp_path):
    """Its configuration and rights, and the commands of the file, with paths of this machine and short slots."""
    head = (COMPOSE / "compose.yaml").read_text()
    port, http, trial = free_port(), free_port(), tmp_path / "trial"
    provision = re.search(r"#   meter-sim (provision .*?)\n#   docker", head, re.DOTALL)[1].replace("\\\n#", "").split()
    provision = [
        str(trial) if word == "trial" else word.replace("mosquitto:8883", f"localhost:{port}") for word in provision
    ]
    provision[provision.index("--slot-seconds") + 1], provision[provision.index("--meters") + 1] = "10", "20"
    subprocess.run([program("meter-sim"), *provision], check=True, capture_output=True)

    data = tmp_path / "data"
    data.mkdir()
    shipped, included = ROOT / "broker-config" / "mosquitto", tmp_path / "conf.d"
    included.mkdir()
    dream = (shipped / "dream.conf").read_text().replace("listener 8883", f"listener {port} 127.0.0.1")
    dream = dream.replace("/etc/mosquitto/certs", str(trial)).replace("/etc/mosquitto/dream.acl", str(shipped / "dream.acl"))
    (included / "dream.conf").write_text(dream)
    conf = (COMPOSE / "mosquitto.conf").read_text().replace("/mosquitto/data", str(data))
    conf = conf.replace("/etc/mosquitto/conf.d", str(included))
    # In the container it runs as the owner of its files. Root would become another user, who cannot read them.
    (tmp_path / "mosquitto.conf").write_text(conf + ("user root\n" if os.geteuid() == 0 else ""))
    environment = {
        **os.environ,
        "DREAM_HTTP_LISTEN": f"127.0.0.1:{http}",
        "DREAM_STORE_PATH": str(tmp_path / "gateway.redb"),
    }
    command = compose()["services"]["gateway"]["command"][:-1] + [trial / "gateway.toml"]
    log = (tmp_path / "log").open("w")
    with (
        log,
        running(["mosquitto", "-c", tmp_path / "mosquitto.conf"], stdout=log, stderr=log),
        running([program("dream-gateway"), *command], stdout=log, stderr=log, env=environment),
    ):
        until("/readyz", lambda: urllib.request.urlopen(f"http://127.0.0.1:{http}/readyz", timeout=5).status == 200)
        meters = [word.replace("/trial", str(trial)) for word in compose()["services"]["meters"]["command"]]
        meters = [word.replace("mosquitto:8883", f"localhost:{port}") for word in meters] + ["--slots", "2"]
        done = subprocess.run([program("meter-sim"), *meters], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0 and "2 of 2 slots gave a sum" in done.stdout, done.stdout + done.stderr
