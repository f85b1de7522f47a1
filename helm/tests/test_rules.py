"""The Prometheus rules: valid, tested by promtool for each alert, and documented."""

import re
import subprocess

import yaml
from conftest import ROOT, RULES, RUNBOOKS, alerts, rule_groups

TESTS = RULES.with_name("dream-gateway_test.yaml")


def promtool(*args):
    return subprocess.run(["promtool", *map(str, args)], capture_output=True, text=True)


def test_promtool_accepts_the_rules():
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_should_and_only_then():
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways():
    cases = [case for test in yaml.safe_load(TESTS.read_text())["tests"] for case in test.get("alert_rule_test", [])]
    fires = {case["alertname"] for case in cases if case["exp_alerts"]}
    rests = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert fires == rests == set(alerts())


def test_every_recording_rule_is_tested():
    text = TESTS.read_text()
    records = [rule["record"] for group in rule_groups() for rule in group["rules"] if "record" in rule]
    assert records and all(f"expr: {record}\n" in text for record in records)


def test_a_wrong_rule_would_fail(tmp_path):
    """The suite can fail: a threshold that is off is noticed."""
    for path in (RULES, TESTS):
        (tmp_path / path.name).write_text(path.read_text().replace("> 0.25", "> 25"))
    assert promtool("test", "rules", tmp_path / TESTS.name).returncode != 0


def test_every_alert_says_how_bad_it_is_and_has_a_runbook():
    runbooks = (ROOT / "docs" / "runbooks.md").read_text()
    sections = re.findall(r"^### (Dream\w+)$", runbooks, re.MULTILINE)
    assert sections == list(alerts()), "one section for each alert, in the same order"
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{name.lower()}"
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], name


def test_rules_use_metrics_that_the_gateway_has():
    source = "".join(path.read_text() for path in (ROOT / "gateway" / "src").glob("metrics*/**/*.rs"))
    source += (ROOT / "gateway" / "src" / "metrics.rs").read_text()
    known = set(re.findall(r'"(dream_[a-z_]+)"', source))
    for group in rule_groups():
        for rule in group["rules"]:
            used = set(re.findall(r"\b(dream_[a-z_]+)", rule["expr"]))
            assert used <= known, used - known
