"""Catalogue: the clients that are tried, each with its environment, its scenario and the packages that date it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """A client. `name` is that of its environment's pins and, with `suffix`, of its scenario."""

    name: str
    title: str
    packages: tuple[str, ...]
    suffix: str = ".py"


CLIENTS = (Client("openai", "OpenAI's Python SDK", ("openai",)),)
