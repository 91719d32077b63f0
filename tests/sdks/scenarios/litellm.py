"""LiteLLM, as it calls servers of OpenAI's kind."""

import json
import os
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or the import asks the network for prices

import litellm
from pydantic import BaseModel, Field

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
QUESTION = [{"role": "user", "content": "What will the weather be in Lisbon?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
TOOL = {"type": "function", "function": {"name": "forecast", "parameters": PARAMETERS}}


class Report(BaseModel):
    """A forecast."""

    city: Literal["Lisbon", "Porto"]
    degrees: int = Field(ge=-20, le=50)


def options(url: str) -> dict[str, object]:
    return {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "none", "temperature": 0, "num_retries": 0}


@check("completion, whole and streamed")
def chat(servers: Servers) -> None:
    wanted = {**options(servers.real), "messages": QUESTION, "max_tokens": 24}
    whole = litellm.completion(**wanted)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**wanted, stream=True))
    assert text == whole.choices[0].message.content
    assert whole.usage.completion_tokens > 0


@check("a tool loop")
def loop(servers: Servers) -> None:
    wanted = {**options(servers.scripted), "tools": [TOOL]}
    for stream in (False, True):
        answer = litellm.completion(**wanted, messages=QUESTION, stream=stream)
        if stream:
            answer = litellm.stream_chunk_builder(list(answer))
        message = answer.choices[0].message
        assert answer.choices[0].finish_reason == "tool_calls"
        assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Lisbon", "days": 3}
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
        last = litellm.completion(**wanted, messages=[*QUESTION, message.model_dump(), result])
        assert last.choices[0].message.content == "It will be sunny in Lisbon."


@check("a structured answer")
def structured(servers: Servers) -> None:
    answer = litellm.completion(**options(servers.real), messages=QUESTION, response_format=Report)
    Report.model_validate_json(answer.choices[0].message.content)


@check("embeddings")
def embeddings(servers: Servers) -> None:
    wanted = {name: value for name, value in options(servers.real).items() if name != "temperature"}
    answer = litellm.embedding(**wanted, input=["a tide", "a ship"], encoding_format="float")
    assert len(answer.data) == 2


if __name__ == "__main__":
    check.run()
