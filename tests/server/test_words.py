import re

import pytest

from server.errors import ApiError
from server.words import Names, in_words_of, name_of

NAMES: Names = ((re.compile(r"a\.b(.*)"), r"x\1"), (re.compile(r"a(.*)"), r"y\1"))


@pytest.mark.parametrize(("param", "name"), [("a.b.c", "x.c"), ("a.c", "y.c"), ("b", "b")])
def test_a_field_has_the_name_that_it_was_made_from(param: str, name: str) -> None:
    assert name_of(param, NAMES) == name
    with pytest.raises(ApiError, match=f"{name}: is wrong") as told, in_words_of(NAMES):
        raise ApiError(400, f"{param}: is wrong", param=param)
    assert told.value.body["param"] == name


def test_an_error_of_no_field_stays_as_it_is() -> None:
    with pytest.raises(ApiError, match="busy"), in_words_of(NAMES):
        raise ApiError(429, "busy")
