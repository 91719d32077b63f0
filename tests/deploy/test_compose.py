import re

import yaml

from config.settings import ServerSettings
from deploy.fetch_model import SOURCES
from deploy.image.engine import CACHE, MODELS
from tests.deploy.watched import BOARD, DEPLOY, Tree, documents

FILE = DEPLOY / "compose.yaml"
SERVICES: dict[str, Tree] = documents(FILE)[0]["services"]
AFTER_DRAIN_SECONDS = 12  # docs/operations.md: the step in flight, and last answers


def mounts(service: str) -> dict[str, str]:
    """Where in a container each folder or file beside this file is."""
    found: dict[str, str] = {}
    for mount in SERVICES[service]["volumes"]:
        source, place, *_ = mount.split(":") if not mount.startswith("$") else ["", *mount.split(":")[2:]]
        found[place] = source
    return found


def test_what_is_mounted_is_there() -> None:
    sources = [source for name in SERVICES for source in mounts(name).values() if source.startswith("./")]

    assert len(sources) == 3
    assert all((DEPLOY / source).exists() for source in sources)


def test_prometheus_scrapes_the_server_by_its_name_and_port() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

    assert config["scrape_configs"][0]["static_configs"] == [{"targets": [f"tidemark:{ServerSettings().port}"]}]
    assert mounts("prometheus")["/etc/prometheus"] == "./prometheus"


def test_grafana_finds_its_source_and_its_board() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = documents(provisioning / "datasources" / "prometheus.yml")[0]["datasources"]
    (provider,) = documents(provisioning / "dashboards" / "tidemark.yml")[0]["providers"]
    place = f"{provider['options']['path']}/{BOARD.name}"

    assert source["url"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    assert mounts("grafana")[place] == f"./grafana/{BOARD.name}"
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == place


def test_the_model_is_by_default_the_one_that_make_fetches() -> None:
    (_, model) = SERVICES["tidemark"]["command"]

    assert re.fullmatch(r"/models/\$\{TIDEMARK_MODEL:-(.*)\}", model)[1] in SOURCES  # type: ignore[index]  # it matches


def test_a_stopped_server_may_drain() -> None:
    grace = int(SERVICES["tidemark"]["stop_grace_period"].removesuffix("s"))

    assert grace > ServerSettings().drain_seconds + AFTER_DRAIN_SECONDS


def test_the_volumes_are_the_images() -> None:
    folders = mounts("tidemark")

    assert set(folders) == {MODELS, CACHE}
    assert folders[CACHE] in documents(FILE)[0]["volumes"]


def test_only_this_machine_reaches_the_ports_and_the_server_writes_to_its_volumes_alone() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]

    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert SERVICES["tidemark"]["read_only"]
    assert SERVICES["tidemark"]["cap_drop"] == ["ALL"]
