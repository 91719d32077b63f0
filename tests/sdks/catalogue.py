"""Catalogue: the clients that are tried, each with its environment, its scenario and the packages that date it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """A client. `name` is that of its scenario, `environment` that of its pins."""

    name: str
    title: str
    packages: tuple[str, ...]
    environment: str

    @property
    def in_node(self) -> bool:
        """Whether it runs in Node."""
        return self.environment == "node"


def _python(name: str, title: str, *packages: str) -> Client:
    return Client(name, title, packages, name)


CLIENTS = (
    _python("openai", "OpenAI's Python SDK", "openai"),
    Client("openai_node", "OpenAI's Node SDK", ("openai",), "node"),
    _python("anthropic", "Anthropic's Python SDK", "anthropic"),
    Client("vercel", "Vercel's AI SDK", ("ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible"), "node"),
    _python("langchain", "LangChain", "langchain", "langchain-openai"),
    _python("litellm", "LiteLLM", "litellm"),
    _python("pydantic_ai", "Pydantic AI", "pydantic-ai-slim"),
    _python("instructor", "Instructor", "instructor"),
    _python("openai_agents", "OpenAI's Agents SDK", "openai-agents"),
    _python("llm", "Simon Willison's llm", "llm"),
)
