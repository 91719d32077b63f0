import pytest

from tests.deploy.promql import Selector, names_in

MANY = """
sum by (job, state) (rate(a_total{state=~"x|y", job!="z"}[5m])) / on (job) group_left clamp_min(b, 1e-9) > 0.5
  or c{d!~"e"} and max without (le) (f offset 5m)
"""


def test_metrics_are_told_from_functions_labels_and_numbers() -> None:
    names = names_in(MANY.replace("group_left ", "group_left () "))

    assert [selector.name for selector in names.selectors] == ["a_total", "b", "c", "f"]
    assert names.selectors[0].matchers == (("state", "=~", "x|y"), ("job", "!=", "z"))
    assert names.grouping == {"job", "state", "le"}


@pytest.mark.parametrize(
    ("matcher", "taken"),
    [
        (("state", "=", "x"), True),
        (("state", "!=", "x"), False),
        (("state", "=~", "w|x"), True),
        (("state", "=~", "w"), False),
        (("state", "!~", "w|x"), False),
        (("state", "!~", "w"), True),
        (("other", "=", ""), True),
    ],
)
def test_a_selector_takes_what_its_matchers_let_through(matcher: tuple[str, str, str], taken: bool) -> None:
    assert Selector("a", (matcher,)).takes("a", {"state": "x"}) is taken
    assert not Selector("b", (matcher,)).takes("a", {"state": "x"})


def test_a_selector_is_written_as_a_query() -> None:
    selector = Selector("a", (("state", "=~", "x|y"), ("job", "=", "z")))

    assert names_in(str(selector).replace("'", '"')).selectors == (selector,)


def test_each_alternative_of_a_matcher_is_asked_for_alone() -> None:
    selector = Selector("a", (("state", "=~", "x|y"), ("job", "=", "z|z")))

    assert [part.matchers for part in selector.apart()] == [
        (("state", "=~", "x"), ("job", "=", "z|z")),
        (("state", "=~", "y"), ("job", "=", "z|z")),
    ]
