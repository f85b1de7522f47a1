"""The container images: built by buildah from binaries of this machine, small, and run by an ordinary user beside a broker."""

import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import urllib.request

import pytest
import yaml
from conftest import CHART, ROOT
from lab import free_port, running, until

IMAGE = ROOT / "target" / "image"
USER = 65532


class Buildah:
    """With a storage of its own, and without what a machine in a container lacks: overlays, namespaces, registries."""

    def __init__(self, folder):
        self.command = [
            "buildah",
            "--storage-driver",
            "vfs",
            "--root",
            str(folder / "root"),
            "--runroot",
            str(folder / "run"),
        ]

    def __call__(self, *args):
        done = subprocess.run([*self.command, *map(str, args)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def run(self, container, *args, volumes=()):
        mounts = [word for volume in volumes for word in ("--volume", volume)]
        return [*self.command, "run", "--isolation", "chroot", *mounts, container, "--", *map(str, args)]


@pytest.fixture(scope="module")
def buildah():
    with tempfile.TemporaryDirectory() as folder:
        tool = Buildah(pathlib.Path(folder))
        for target in ("gateway", "meter", "meter-sim"):
            tool(
                "build",
                "--format",
                "docker",  # OCI images have no HEALTHCHECK
                "--isolation",
                "chroot",
                "--build-arg",
                "BINARIES=local",
                "--target",
                target,
                "--tag",
                f"dream-{target}",
                ROOT,
            )
        yield tool
        tool("rm", "--all")


def test_everything_that_is_copied_reaches_the_builder():
    """The build from source is not run here, because it needs a base image; what it copies must not be ignored."""
    allowed = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = re.findall(r"^COPY ((?:[^-\n].*)?) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = {source for words in copies for source in words.split()}
    assert {"Cargo.toml", "testkit"} <= sources and sources <= set(allowed), sources - set(allowed)
    members = re.search(r"^members = \[(.*)\]$", (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    assert {member.split("/")[0] for member in re.findall(r'"([^"]+)"', members)} <= sources


def files(buildah, image):
    container = buildah("from", image)
    root = buildah("mount", container)
    found = {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}
    return container, root, found


def config_of(buildah, image):
    return json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]


@pytest.mark.parametrize(
    ("image", "binary"),
    [("dream-gateway", "dream-gateway"), ("dream-meter", "dream-meter"), ("dream-meter-sim", "meter-sim")],
)
def test_an_image_holds_one_binary_and_an_ordinary_user_runs_it(buildah, image, binary):
    container, _, found = files(buildah, image)
    assert found == {f"usr/bin/{binary}"}
    config = config_of(buildah, image)
    assert config["User"] == f"{USER}:{USER}" and config["Entrypoint"] == [f"/usr/bin/{binary}"]
    command = buildah.run(container, f"/usr/bin/{binary}", "--version")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and re.fullmatch(rf"{binary} \d+\.\d+\.\d+\n", done.stdout), done.stdout + done.stderr


def test_an_engine_asks_the_gateway_itself_for_its_health(buildah):
    image = json.loads(buildah("inspect", "--type", "image", "dream-gateway"))
    check = image["Docker"]["config"]["Healthcheck"]["Test"]
    assert check[:3] == ["CMD", "/usr/bin/dream-gateway", "health"], check


@pytest.mark.parametrize("binary", ["dream-gateway", "dream-meter", "meter-sim"])
def test_binaries_need_no_libraries(binary):
    """No program header asks for an interpreter: 3 is PT_INTERP."""
    with (IMAGE / binary).open("rb") as file:
        head = file.read(64)
        assert head[:5] == b"\x7fELF\x02", "64 bits"
        (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        kinds = [struct.unpack_from("<I", file.read(size))[0] for _ in range(count)]
    assert kinds and 3 not in kinds


def test_chart_and_image_agree_about_the_user_and_the_port(buildah):
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["podSecurityContext"]["runAsUser"] == USER
    config = config_of(buildah, "dream-gateway")
    assert (
        list(config["ExposedPorts"]) == [f"{values['http']['port']}/tcp"] and config["WorkingDir"] == "/var/lib/dream"
    )


def test_a_container_is_ready_beside_mosquitto(buildah, tmp_path):
    """It finds the broker by name, which a static binary in an image without libraries must do by itself."""
    port, http, trial, state = free_port(), free_port(), tmp_path / "trial", tmp_path / "state"
    simulator, _, _ = files(buildah, "dream-meter-sim")
    trial.mkdir()
    state.mkdir()
    for folder in (trial, state):
        os.chown(folder, USER, USER)
    words = [
        "provision",
        "--out",
        "/trial",
        "--force",
        "--meters",
        "20",
        "--cluster",
        "riverside",
        "--broker-url",
        f"mqtt://localhost:{port}",
    ]
    done = subprocess.run(
        buildah.run(simulator, "/usr/bin/meter-sim", *words, volumes=[f"{trial}:/trial"]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    toml = trial / "gateway.toml"
    toml.write_text(
        toml.read_text()
        .replace("127.0.0.1:9464", f"127.0.0.1:{http}")
        .replace('"gateway.redb"', '"/var/lib/dream/gateway.redb"')
    )

    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    gateway, _, _ = files(buildah, "dream-gateway")
    config = config_of(buildah, "dream-gateway")
    command = buildah.run(
        gateway, *config["Entrypoint"], *config["Cmd"], volumes=[f"{trial}:/etc/dream:ro", f"{state}:/var/lib/dream"]
    )
    with (
        (tmp_path / "log").open("w") as log,
        running(["mosquitto", "-c", tmp_path / "mosquitto.conf"], stdout=log, stderr=log),
    ):
        with running(command, stdout=log, stderr=log):
            until("/readyz", lambda: urllib.request.urlopen(f"http://127.0.0.1:{http}/readyz", timeout=5).status == 200)
            assert (state / "gateway.redb").stat().st_uid == USER
