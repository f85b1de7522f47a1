"""Every query of every panel, variable and rule gets an answer from a real Prometheus that scrapes a real gateway."""

import json
import math
import re
import urllib.request

import pytest
from conftest import DASHBOARDS, rule_groups
from lab import lab, prometheus, serving, until


@pytest.fixture(scope="module")
def demo():
    with lab() as found:
        # Slots have closed, requests for recovery were sent, and the rules have been evaluated since.
        until("slots", lambda: numbers(found.instant("sum(dream_slots_total{outcome='decoded'}) >= 4")))
        until("requests", lambda: numbers(found.instant("dream_stage_duration_seconds_count{stage='request'} >= 2")))
        until("records", lambda: numbers(found.instant("sum(dream:cluster_slots:ratio1h{outcome='decoded'}) > 0")))
        yield found


def numbers(result):
    """The samples of an answer that are numbers."""
    found = [sample for series in result for sample in series.get("values", [series.get("value")])]
    return [float(value) for _, value in found if not math.isnan(float(value))]


def panel_queries():
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield pytest.param(target, id=f"{path.stem}: {panel['title']}: {target['refId']}")


def variables():
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                yield pytest.param(variable["query"]["query"], id=f"{path.stem}: {variable['name']}")


def records():
    return [rule for group in rule_groups() for rule in group["rules"] if "record" in rule]


def alert_selectors():
    """What alerts look at: their conditions are not met here, so that the whole expression has no answer."""
    for group in rule_groups():
        for rule in group["rules"]:
            if "alert" in rule:
                for selector in sorted(set(re.findall(r"\b(?:up\b|dream[_:][a-z0-9_:]+(?:\{[^}]*\})?)", rule["expr"]))):
                    yield pytest.param(selector, id=f"{rule['alert']}: {selector}")


@pytest.mark.parametrize("target", list(panel_queries()))
def test_a_panel_shows_something(demo, target):
    """A rate needs a while; what has no data by then never has."""
    ask = demo.instant if target.get("instant") else demo.over_time
    until(target["expr"], lambda: numbers(ask(target["expr"])))


@pytest.mark.parametrize("query", list(variables()))
def test_a_variable_offers_something(demo, query):
    assert demo.values(query)


@pytest.mark.parametrize("rule", records(), ids=lambda rule: rule["record"])
def test_a_recording_rule_records_something(demo, rule):
    assert numbers(demo.instant(rule["expr"])), "the expression"
    until(rule["record"], lambda: numbers(demo.instant(rule["record"])))


@pytest.mark.parametrize("selector", list(alert_selectors()))
def test_an_alert_looks_at_something(demo, selector):
    assert numbers(demo.instant(selector))


def test_rules_are_evaluated_without_errors(demo):
    rules = [rule for group in demo.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == sum(len(group["rules"]) for group in rule_groups())
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []


def test_a_healthy_demo_pages_nobody(demo):
    """Its certificates last a day and its slots are short, which is told; nothing is critical beyond that."""
    firing = {alert["labels"]["alertname"] for alert in demo.get("alerts")["alerts"] if alert["state"] == "firing"}
    assert firing <= {
        "DreamCertificateExpiring",
        "DreamCertificateAlmostExpired",
        "DreamEnrolmentsExpiring",
        "DreamEpsilonDayAbovePolicy",
    }


def scrape(demo):
    with urllib.request.urlopen(demo.metrics, timeout=30) as answer:
        return answer.read().decode()


def with_load(text, cluster):
    return text if f"dream_cluster_load_watts{{{cluster}}}" in text else None


def test_every_metric_of_a_cluster_is_on_a_dashboard_or_in_a_rule(demo):
    families = set(re.findall(r"^# TYPE (dream_\w+)", scrape(demo), re.MULTILINE))
    used = "".join(path.read_text() for path in DASHBOARDS) + json.dumps(rule_groups())
    unused = {family for family in families if family not in used}
    # The plain load, without scaling, is for those who ask for it by name.
    plain = {f"dream_{of}_{what}_watts" for of in ["cluster", "group"] for what in ["load", "load_band"]}
    assert unused <= plain, unused


def test_a_thousand_clusters_are_told_apart_in_tables_and_not_in_a_thousand_lines(demo):
    """A real scrape, with one cluster a thousand times, and one group."""
    one, town = 'cluster="district-1"', 'group="town"'
    lines = until("a slot with a load", lambda: with_load(scrape(demo), one)).splitlines()
    rest = [line for line in lines if "cluster=" not in line and "group=" not in line]
    many = [line.replace(one, f'cluster="c-{number:04}"') for line in lines if one in line for number in range(1000)]
    many += [line.replace(town, f'group="g-{number:04}"') for line in lines if town in line for number in range(1000)]
    with serving("\n".join(rest + many) + "\n") as metrics, prometheus(metrics) as found:
        until("records", lambda: len(found.instant("dream:cluster_load_error:ratio")) == 1000)
        for target in panel_queries():
            expr = target.values[0]["expr"].replace("$focus", "c-0042").replace("$single", "g-0042")
            if target.values[0].get("format") == "table":
                until(target.id, lambda expr=expr: len(found.instant(expr)) == 1000)
            elif not target.values[0].get("instant"):
                lines = until(target.id, lambda expr=expr: found.over_time(expr))
                assert len(lines) <= 40, target.id


def test_a_query_without_an_answer_would_be_noticed(demo):
    assert not numbers(demo.instant("dream_cluster_load_in_furlongs"))
    with pytest.raises(AssertionError, match="parse error"):
        demo.instant("sum(")
