import re

import pytest

from tests.deploy.exposition import series
from tests.deploy.promql import names_in
from tests.deploy.watched import DEPLOY, RULES_TEST, Rule, documents, rules

SERIES = series()
RECORDED = {rule.name for rule in rules() if not rule.alert}
ALERTS = [rule for rule in rules() if rule.alert]
OPERATIONS = (DEPLOY.parent / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_names_only_what_the_server_shows(rule: Rule) -> None:
    names = names_in(rule.expr)

    for selector in names.selectors:
        for part in selector.apart():
            assert part.name in RECORDED or any(part.takes(*one) for one in SERIES), part
    assert names.grouping <= {"job", "instance", "model"}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.name)
def test_an_alert_has_a_case_in_which_it_fires(rule: Rule) -> None:
    cases = [
        case
        for test in documents(RULES_TEST)[0]["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == rule.name and case["exp_alerts"]
    ]

    assert cases
    assert all(alert["exp_annotations"] for case in cases for alert in case["exp_alerts"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.name)
def test_an_alert_says_where_to_read_what_to_do(rule: Rule) -> None:
    assert rule.tree["annotations"]["runbook"] == f"docs/operations.md#{rule.name.lower()}"
    assert f"\n### {rule.name}\n" in OPERATIONS


def test_no_alert_is_explained_that_is_gone() -> None:
    assert set(re.findall(r"^### (Tidemark\w+)$", OPERATIONS, re.MULTILINE)) == {rule.name for rule in ALERTS}
