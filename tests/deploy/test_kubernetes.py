import re

import pytest

from config.load import load
from config.settings import ServerSettings
from tests.deploy.watched import DEPLOY, RULES, Tree, documents

BASE, MONITORED = DEPLOY / "kubernetes" / "base", DEPLOY / "kubernetes" / "monitored"
DOCKERFILE = (DEPLOY.parent / "Dockerfile").read_text()
AFTER_DRAIN_SECONDS = 12  # docs/operations.md: the step in flight, and last answers

(DEPLOYMENT,) = documents(BASE / "deployment.yaml")
(SERVICE,) = documents(BASE / "service.yaml")
POD: Tree = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


@pytest.mark.parametrize(("probe", "path"), [("startup", "health"), ("liveness", "health"), ("readiness", "ready")])
def test_a_probe_asks_what_it_is_for(probe: str, path: str) -> None:
    assert CONTAINER[f"{probe}Probe"]["httpGet"] == {"path": f"/{path}", "port": "http"}


def test_a_pod_that_leaves_may_drain() -> None:
    _, before = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]

    grace = POD["terminationGracePeriodSeconds"]

    assert grace > int(before) + ServerSettings().drain_seconds + AFTER_DRAIN_SECONDS


def test_the_variables_are_settings() -> None:
    names = {variable["name"] for variable in CONTAINER["env"]}

    origins = load(["m"], dict.fromkeys(names, "1")).origins  # which refuses what is no setting

    assert names <= set(origins.values())


def test_the_pod_runs_as_the_images_user_and_writes_to_its_temporary_folder_alone() -> None:
    user = re.search(r"--uid (\d+)", DOCKERFILE)
    assert user is not None

    written = [mount["mountPath"] for mount in CONTAINER["volumeMounts"] if not mount.get("readOnly")]

    assert POD["securityContext"]["runAsUser"] == int(user[1])
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert written == ["/tmp"]


def test_the_model_is_on_the_claim() -> None:
    (claim,) = documents(BASE / "models.yaml")
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    (folder,) = (mount["mountPath"] for mount in CONTAINER["volumeMounts"] if mount["name"] == "models")

    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert CONTAINER["args"][1].startswith(f"{folder}/")


def test_service_and_monitor_find_the_pods_by_their_labels_and_the_port_by_its_name() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    (monitor,) = documents(MONITORED / "monitor.yaml")
    (port,) = CONTAINER["ports"]

    assert SERVICE["spec"]["selector"].items() <= labels.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= SERVICE["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == SERVICE["spec"]["ports"][0]["name"] == port["name"]
    assert SERVICE["spec"]["ports"][0]["targetPort"] == port["name"]
    assert port["containerPort"] == ServerSettings().port


def test_the_job_has_the_name_that_rules_and_board_look_for() -> None:
    (config,) = documents(DEPLOY / "prometheus" / "prometheus.yml")

    assert SERVICE["metadata"]["name"] == config["scrape_configs"][0]["job_name"]


def test_the_operators_rules_are_those_of_prometheus() -> None:
    (rules,) = documents(MONITORED / "rules.yaml")

    assert rules["spec"] == documents(RULES)[0]
