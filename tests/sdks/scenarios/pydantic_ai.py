"""Pydantic AI, by chat completions and by Responses."""

from typing import Literal

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
QUESTION = "What will the weather be in Lisbon?"
GREEDY = ModelSettings(temperature=0)


class Report(BaseModel):
    """A forecast."""

    city: Literal["Lisbon", "Porto"]
    degrees: int = Field(ge=-20, le=50)


def chat_model(url: str) -> OpenAIChatModel:
    return OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


def responses_model(url: str) -> OpenAIResponsesModel:
    return OpenAIResponsesModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


async def looped(model: OpenAIChatModel | OpenAIResponsesModel) -> None:
    """Run an agent with a tool, whole and streamed."""
    asked = []
    agent = Agent(model, model_settings=GREEDY)

    @agent.tool_plain
    def forecast(city: str, days: int) -> str:
        """Tell the weather of some days."""
        asked.append((city, days))
        return "sunny"

    assert (await agent.run(QUESTION)).output == "It will be sunny in Lisbon."
    async with agent.run_stream(QUESTION) as stream:
        assert await stream.get_output() == "It will be sunny in Lisbon."
    assert asked == [("Lisbon", 3)] * 2


@check("run and stream")
async def chat(servers: Servers) -> None:
    agent = Agent(chat_model(servers.real), model_settings=ModelSettings(temperature=0, max_tokens=24))
    whole = await agent.run(QUESTION)
    async with agent.run_stream(QUESTION) as stream:
        assert await stream.get_output() == whole.output
    assert whole.usage.output_tokens > 0


@check("a tool loop")
async def loop(servers: Servers) -> None:
    await looped(chat_model(servers.scripted))


@check("a structured answer, native and by a tool")
async def structured(servers: Servers) -> None:
    for output in (NativeOutput(Report), ToolOutput(Report)):
        agent = Agent(chat_model(servers.real), output_type=output, model_settings=GREEDY)
        assert isinstance((await agent.run(QUESTION)).output, Report)


@check("a tool loop and a structured answer by Responses")
async def responses(servers: Servers) -> None:
    await looped(responses_model(servers.scripted))
    agent = Agent(responses_model(servers.real), output_type=NativeOutput(Report), model_settings=GREEDY)
    assert isinstance((await agent.run(QUESTION)).output, Report)


if __name__ == "__main__":
    check.run()
