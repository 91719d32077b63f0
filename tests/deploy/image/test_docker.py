import json
import os
from pathlib import Path

import pytest

from deploy.image.docker import Docker
from deploy.image.engine import Wanted
from tests.deploy.image.fakes import CONFIG, program
from tests.deploy.image.test_engine import TREE

WANTED = Wanted(("serve", "/models/m.gguf"), Path("/m"), 8001)


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    return Docker(str(program(tmp_path, "docker", says=json.dumps([{"Config": TREE}]))))


def asked(docker: Docker) -> list[str]:
    return Path(f"{docker.program}.asked").read_text().splitlines()


def test_a_build_names_the_image_and_the_wheels(docker: Docker, tmp_path: Path) -> None:
    docker.build(tmp_path, {})

    assert asked(docker)[0].startswith("build --tag=tidemark --build-context=wheels=")


def test_podman_is_told_to_keep_the_health_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = program(tmp_path, "podman")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    Docker("podman").build(tmp_path, {})

    assert Path(f"{file}.asked").read_text().startswith("build --format=docker ")


def test_the_image_is_asked_what_it_says_of_itself(docker: Docker) -> None:
    assert docker.config() == CONFIG


def test_podman_tells_the_health_check_beside_the_rest(tmp_path: Path) -> None:
    rest = {name: value for name, value in TREE.items() if name != "Healthcheck"}
    says = json.dumps([{"Config": rest, "Healthcheck": TREE["Healthcheck"]}])

    assert Docker(str(program(tmp_path, "podman", says=says))).config() == CONFIG


def test_a_container_is_confined_and_gone_at_the_end(docker: Docker) -> None:
    with docker.run(WANTED) as container:
        assert "Config" in container.inside("id", "-u").stdout
        code = container.stop(10)

    run = next(line for line in asked(docker) if line.startswith("run "))
    name = run.split("--name=")[1].split()[0]
    assert code == 0
    assert {"--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges"} <= set(run.split())
    assert "--volume=/m:/models:ro" in run
    assert run.endswith("--publish=127.0.0.1:8001:8000 --volume=/m:/models:ro tidemark serve /models/m.gguf")
    assert {f"exec {name} id -u", f"kill --signal=TERM {name}", f"rm --force {name}"} <= set(asked(docker))


def test_nothing_is_mounted_where_the_model_is_in_the_image(docker: Docker) -> None:
    with docker.run(Wanted((), None, 8001)) as container:
        container.stop(10)

    assert not any("--volume" in line for line in asked(docker))
