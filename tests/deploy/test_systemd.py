from config.settings import ServerSettings
from tests.deploy.watched import DEPLOY

AFTER_DRAIN_SECONDS = 12  # docs/operations.md: the step in flight, and last answers
WRONG_SETTINGS = "2"  # the exit code, of the same page


def service() -> dict[str, list[str]]:
    """The lines of the unit's part, by key; one may come more than once."""
    found: dict[str, list[str]] = {}
    part = (DEPLOY / "systemd" / "tidemark.service").read_text().partition("[Service]")[2].partition("[Install]")[0]
    for line in part.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_a_stopped_server_may_drain() -> None:
    (seconds,) = service()["TimeoutStopSec"]

    assert int(seconds) > ServerSettings().drain_seconds + AFTER_DRAIN_SECONDS


def test_it_is_started_again_but_for_wrong_settings() -> None:
    assert service()["Restart"] == ["on-failure"]
    assert service()["RestartPreventExitStatus"] == [WRONG_SETTINGS]


def test_it_runs_as_nobody_in_particular_and_can_become_nobody_else() -> None:
    assert service()["DynamicUser"] == ["yes"]
    assert service()["NoNewPrivileges"] == ["yes"]
    assert service()["CapabilityBoundingSet"] == [""]


def test_what_the_caches_size_comes_from_stays_in_sight() -> None:
    assert "ProcSubset" not in service()
