import re

import pytest

from tests.sdks.catalogue import CLIENTS, Client
from tests.sdks.environment import PINS, Environment
from tests.sdks.run import SCENARIOS


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_has_a_scenario_and_pins_that_tell_its_version(client: Client) -> None:
    assert (SCENARIOS / f"{client.name}.{'mjs' if client.in_node else 'py'}").is_file()
    assert all(Environment(client.environment).version(package) for package in client.packages)


def test_every_package_of_every_environment_is_pinned() -> None:
    lines = {line for file in PINS.glob("*.txt") for line in file.read_text().splitlines()}

    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_there_are_no_pins_that_nothing_uses() -> None:
    assert {file.stem for file in PINS.glob("*.txt")} == {client.environment for client in CLIENTS} | {"schemathesis"}
