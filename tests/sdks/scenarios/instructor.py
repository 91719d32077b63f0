"""Instructor, in each of its modes for OpenAI's API."""

from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
QUESTION = [{"role": "user", "content": "What will the weather be in Lisbon?"}]


class Report(BaseModel, extra="forbid"):
    """A forecast. Where more is allowed, a small model goes on for ever."""

    city: Literal["Lisbon", "Porto"]
    degrees: int = Field(ge=-20, le=50)


class Forecast(BaseModel, extra="forbid"):
    """What the tool is called with."""

    city: Literal["Lisbon", "Porto"]
    days: int = Field(ge=1, le=9)


def client_of(url: str, mode: instructor.Mode) -> instructor.Instructor:
    return instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=mode)


@check("a structured answer by a schema, by JSON and by a tool")
def structured(servers: Servers) -> None:
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
        report = client_of(servers.real, mode).create(
            model=MODEL, messages=QUESTION, response_model=Report, max_retries=0, temperature=0
        )
        assert isinstance(report, Report), mode


@check("a streamed answer that grows")
def partial(servers: Servers) -> None:
    parts = list(
        client_of(servers.real, instructor.Mode.JSON_SCHEMA).create_partial(
            model=MODEL, messages=QUESTION, response_model=Report, max_retries=0, temperature=0
        )
    )
    assert parts[-1].city in ("Lisbon", "Porto")


@check("a tool loop")
def loop(servers: Servers) -> None:
    client = client_of(servers.real, instructor.Mode.TOOLS)
    called, raw = client.create_with_completion(model=MODEL, messages=QUESTION, response_model=Forecast, max_retries=0)
    assert isinstance(called, Forecast)
    message = {"content": "", **raw.choices[0].message.model_dump(exclude_none=True)}
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    last = client.create(
        model=MODEL,
        messages=[*QUESTION, message, result],
        response_model=None,
        max_tokens=24,
    )
    assert last.choices[0].message.content


if __name__ == "__main__":
    check.run()
