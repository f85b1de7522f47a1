"""The dashboards: of Grafana's types, complete, and of use with one cluster and with a thousand."""

import json
import re
import subprocess

import pytest
from conftest import DASHBOARDS, NODE, ROOT, RUNBOOKS, alerts

each_board = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def read(path):
    return json.loads(path.read_text())


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def type_check(boards):
    """What tsc says of them; nothing if they are of Grafana's types."""
    folder = NODE / "check"
    folder.mkdir(parents=True, exist_ok=True)
    head = (ROOT / "helm" / "tests" / "dashboard.ts").read_text()
    for name, board in boards.items():
        (folder / f"{name}.ts").write_text(
            f"{head}\nexport const dashboard: Checked = {json.dumps(board, indent=2)};\n"
        )
    flags = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
    ]
    files = [folder / f"{name}.ts" for name in boards]
    done = subprocess.run([NODE / "node_modules" / ".bin" / "tsc", *flags, *files], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_dashboards_are_of_grafanas_types():
    assert len(DASHBOARDS) == 4
    assert type_check({path.stem: read(path) for path in DASHBOARDS}) == ""


def broken(change):
    board = read(DASHBOARDS[0])
    change(board, panels(board)[0])
    return board


def test_mistakes_are_seen_by_the_types():
    mistakes = {
        "an unknown key": lambda board, panel: board.update(titel="x"),
        "an unknown key of a panel": lambda board, panel: panel.update(tittle="x"),
        "an unknown option": lambda board, panel: panel["options"].update(colour="x"),
        "a value that is none": lambda board, panel: panel["options"].update(colorMode="loud"),
        "a panel of no type": lambda board, panel: panel.update(type="statt"),
        "no description": lambda board, panel: panel.pop("description"),
        "no unit": lambda board, panel: panel["fieldConfig"]["defaults"].pop("unit"),
        "text for a number": lambda board, panel: panel["gridPos"].update(w="4"),
    }
    boards = {f"mistake{number}": broken(change) for number, change in enumerate(mistakes.values())}
    said = type_check(boards)
    for name, mistake in zip(boards, mistakes, strict=True):
        assert f"{name}.ts" in said, f"{mistake} went unnoticed"


@each_board
def test_panels_say_what_they_show_in_which_unit(path):
    for panel in panels(read(path)):
        assert len(panel["description"]) > 20 and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]


@each_board
def test_panels_have_ids_and_places_of_their_own(path):
    board = read(path)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


@each_board
def test_there_are_variables_for_the_data_source_and_what_is_shown(path):
    board = read(path)
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    shown = "group" if path.stem == "groups" else "cluster"
    assert variables["datasource"]["type"] == "datasource" and {"job", shown} <= set(variables)
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board["panels"])))
    assert set(variables) <= used, set(variables) - used


@each_board
def test_links_lead_to_runbooks_that_exist(path):
    text = path.read_text()
    runbooks = (ROOT / "docs" / "runbooks.md").read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", runbooks, re.M)
    }
    anchors = set(re.findall(re.escape(RUNBOOKS) + r"#([a-z0-9-]+)", text))
    assert anchors and anchors <= headings, anchors - headings
    assert text.count("https://") == text.count(RUNBOOKS), "no other link leaves Grafana"


def test_every_alert_is_linked_from_a_panel():
    text = "".join(path.read_text() for path in DASHBOARDS)
    similar = {"DreamCertificateAlmostExpired": "dreamcertificateexpiring"}
    for name in alerts():
        assert f"{RUNBOOKS}#{similar.get(name, name.lower())}" in text, name


@each_board
def test_a_thousand_clusters_do_not_become_a_thousand_lines(path):
    """A series for each cluster or group is drawn for at most twenty of them, or for the one that is chosen."""
    for panel in panels(read(path)):
        for target in panel["targets"]:
            by_cluster = re.search(r"\{\{(cluster|group)\}\}", target["legendFormat"])
            if panel["type"] == "timeseries" and by_cluster:
                assert re.search(r"(topk|bottomk)\(20, ", target["expr"]), panel["title"]
            if panel["type"] == "table":
                assert panel["options"]["enablePagination"], panel["title"]
        assert "repeat" not in panel, panel["title"]


def test_an_error_larger_than_the_load_is_shown_as_all_of_it_and_explained():
    capped = []
    for panel in panels(read(next(path for path in DASHBOARDS if path.stem == "clusters"))):
        queries = [target["expr"] for target in panel["targets"]]
        for expr in filter(lambda expr: re.search(r"load_error:ratio|_band_watts.* / ", expr), queries):
            assert expr.startswith("clamp_max(") and re.search(r", 1\)( and on |$)", expr), panel["title"]
            assert "up to 100 %" in panel["description"], panel["title"]
            capped.append(panel["title"])
    assert len(set(capped)) == 4
