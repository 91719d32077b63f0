"""LangChain, by langchain-openai."""

from typing import Literal

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
QUESTION = "What will the weather be in Lisbon?"


class Report(BaseModel):
    """A forecast."""

    city: Literal["Lisbon", "Porto"]
    degrees: int = Field(ge=-20, le=50)


def model_of(url: str, **options: object) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0, temperature=0, **options)


@check("invoke and stream")
def chat(servers: Servers) -> None:
    model = model_of(servers.real, max_tokens=24)
    whole = model.invoke(QUESTION)
    assert whole.content
    assert whole.usage_metadata["output_tokens"] > 0
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == whole.content


@check("an agent's tool loop")
def loop(servers: Servers) -> None:
    asked = []

    @tool
    def forecast(city: str, days: int) -> str:
        """Tell the weather of some days."""
        asked.append((city, days))
        return "sunny"

    agent = create_agent(model_of(servers.scripted), [forecast])
    for run in (agent.invoke, lambda question: list(agent.stream(question, stream_mode="values"))[-1]):
        answer = run({"messages": [("user", QUESTION)]})
        assert [message.type for message in answer["messages"]] == ["human", "ai", "tool", "ai"]
        assert answer["messages"][-1].content == "It will be sunny in Lisbon."
    assert asked == [("Lisbon", 3)] * 2


@check("a structured answer")
def structured(servers: Servers) -> None:
    model = model_of(servers.real)
    for method in ("json_schema", "function_calling"):
        report = model.with_structured_output(Report, method=method).invoke(QUESTION)
        assert isinstance(report, Report), method


@check("embeddings")
def embeddings(servers: Servers) -> None:
    model = OpenAIEmbeddings(
        model=MODEL, base_url=f"{servers.real}/v1", api_key="none", check_embedding_ctx_length=False
    )
    first, second = model.embed_documents(["a tide", "a ship"])
    assert len(first) == len(second) > 0
    assert first != second


if __name__ == "__main__":
    check.run()
