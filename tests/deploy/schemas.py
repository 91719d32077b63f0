"""Reads manifests from standard input and prints, as JSON, what is wrong with each; has an environment of its own."""

import json
import sys

import yaml
from cloudcoil.models.prometheus_operator import v1
from kubernetes_validate import ValidationError, validate

VERSIONS = ("1.30", "1.37")  # of Kubernetes: what preStop and the rest need at least, and the newest that is known


def fault_of(manifest):
    """What is wrong with one, or None."""
    if manifest["apiVersion"].startswith("monitoring.coreos.com/"):
        return _fault_for_the_operator(manifest)
    for version in VERSIONS:
        try:
            validate(manifest, version, strict=True)
        except ValidationError as error:
            return f"{version}: {'/'.join(map(str, error.path))}: {error.message}"
    return None


def _fault_for_the_operator(manifest):
    """Its models take fields that they don't know, and drop them: what comes back must be what went in."""
    try:
        model = getattr(v1, manifest["kind"]).model_validate(manifest)
    except ValueError as error:
        return str(error)
    back = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return None if back == manifest else "a field that the operator does not know"


if __name__ == "__main__":
    found = [(one["kind"], fault_of(one)) for one in yaml.safe_load_all(sys.stdin) if one]
    json.dump(found, sys.stdout)
