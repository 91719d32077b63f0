"""Errors, health and version: answers."""

from typing import Literal

from typing_extensions import TypedDict


class ErrorBody(TypedDict):
    """What went wrong. All four keys are always there."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(TypedDict):
    """How every error arrives, within a stream too."""

    error: ErrorBody


class StatusBody(TypedDict):
    """A probe's answer."""

    status: Literal["ok", "ready"]


class VersionBody(TypedDict):
    """The version of this server."""

    version: str
