"""OpenAI's Agents SDK, by chat completions and by Responses."""

from typing import Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel, Field

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
QUESTION = "What will the weather be in Lisbon?"
GREEDY = ModelSettings(temperature=0)
set_tracing_disabled(True)  # traces would go to OpenAI


class Report(BaseModel):
    """A forecast."""

    city: Literal["Lisbon", "Porto"]
    degrees: int = Field(ge=-20, le=50)


def client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


async def looped(kind: type, url: str) -> None:
    """Run an agent with a tool, whole and streamed."""
    asked = []

    @function_tool
    def forecast(city: str, days: int) -> str:
        """Tell the weather of some days."""
        asked.append((city, days))
        return "sunny"

    agent = Agent("weather", tools=[forecast], model=kind(MODEL, client_of(url)), model_settings=GREEDY)
    assert (await Runner.run(agent, QUESTION)).final_output == "It will be sunny in Lisbon."
    streamed = Runner.run_streamed(agent, QUESTION)
    events = [event async for event in streamed.stream_events()]
    assert events
    assert streamed.final_output == "It will be sunny in Lisbon."
    assert asked == [("Lisbon", 3)] * 2


async def answered(kind: type, url: str) -> None:
    """Ask for a report."""
    agent = Agent("weather", output_type=Report, model=kind(MODEL, client_of(url)), model_settings=GREEDY)
    assert isinstance((await Runner.run(agent, QUESTION)).final_output, Report)


@check("run and stream")
async def chat(servers: Servers) -> None:
    settings = ModelSettings(temperature=0, max_tokens=24)
    model = OpenAIChatCompletionsModel(MODEL, client_of(servers.real))
    agent = Agent("sailor", model=model, model_settings=settings)
    whole = await Runner.run(agent, QUESTION)
    streamed = Runner.run_streamed(agent, QUESTION)
    assert [event async for event in streamed.stream_events()]
    assert streamed.final_output == whole.final_output


@check("a tool loop")
async def loop(servers: Servers) -> None:
    await looped(OpenAIChatCompletionsModel, servers.scripted)


@check("a structured answer")
async def structured(servers: Servers) -> None:
    await answered(OpenAIChatCompletionsModel, servers.real)


@check("a tool loop and a structured answer by Responses")
async def responses(servers: Servers) -> None:
    await looped(OpenAIResponsesModel, servers.scripted)
    await answered(OpenAIResponsesModel, servers.real)


if __name__ == "__main__":
    check.run()
