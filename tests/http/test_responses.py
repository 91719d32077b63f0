"""Responses, whole, streamed and in the background, as clients read them, keep them and come back to them."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from engine.errors import QueueFull, StepFailed
from server.recorder import Endpoint, Outcome
from tests.fakes import CONTEXT, FakeEngine, FakeTokenizer, Script, make_service, make_settings
from tests.http.clients import client_of, frames_of, listening
from tests.http.test_disconnects import until

pytestmark = pytest.mark.anyio
PATH = "/v1/responses"
Body = dict[str, Any]


def asked(**fields: object) -> Body:
    return {"model": "org/tiny", "input": "hello", **fields}


def saying(text: str = "Hi", **fields: Any) -> FakeEngine:
    """An engine that says this and ends."""
    return FakeEngine(script=lambda _request, _choice: Script(text, ends=True, **fields))


async def posted(client: httpx.AsyncClient, path: str = PATH, **fields: object) -> Body:
    answer = await client.post(path, json=asked(**fields))
    assert answer.status_code == 200, answer.text
    result: Body = answer.json()
    return result


async def got(client: httpx.AsyncClient, path: str) -> Body:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    result: Body = answer.json()
    return result


def events_of(answer: httpx.Response) -> list[Body]:
    """The JSON of every event, whose name and id agree with it."""
    assert answer.status_code == 200, answer.text
    events = []
    for frame in frames_of(answer.text):
        event = json.loads(frame["data"])
        assert frame["event"] == event["type"]
        assert frame["id"].endswith(f":{event['sequence_number']}")
        events.append(event)
    return events


def alike(body: Body) -> Body:
    """A response without what no two share."""
    return {**body, "id": "", "output": [{**item, "id": ""} for item in body["output"]]}


async def test_a_whole_answer_has_its_text_and_its_usage() -> None:
    async with client_of(make_service(saying())) as client:
        body = await posted(client, metadata={"a": "b"})

    assert body["id"].startswith("resp_")
    assert (body["object"], body["status"], body["error"], body["incomplete_details"]) == (
        "response", "completed", None, None
    )  # fmt: skip
    [item] = body["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]
    assert body["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 8,
    }
    assert body["metadata"] == {"a": "b"}


async def test_a_streamed_answer_is_the_whole_one_in_numbered_events() -> None:
    async with client_of(make_service(saying())) as client:
        whole = await posted(client)
        events = events_of(await client.post(PATH, json=asked(stream=True)))

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert events[0]["response"]["output"] == []
    assert {event["response"]["id"] for event in events if "response" in event} == {events[0]["response"]["id"]}
    assert alike(events[-1]["response"]) == alike(whole)
    assert "".join(event.get("delta", "") for event in events) == "Hi"


async def test_an_answer_that_is_cut_is_incomplete() -> None:
    async with client_of(make_service()) as client:
        whole = await posted(client, max_output_tokens=3)
        *_, last = events_of(await client.post(PATH, json=asked(max_output_tokens=3, stream=True)))

    for body in (whole, last["response"]):
        assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert body["output"][0]["status"] == "incomplete"
        assert body["completed_at"] is None
    assert last["type"] == "response.incomplete"


async def test_log_probabilities_are_listed_beside_the_text() -> None:
    async with client_of(make_service(saying())) as client:
        whole = await posted(client, top_logprobs=2)
        events = events_of(await client.post(PATH, json=asked(top_logprobs=2, stream=True)))

    entries = whole["output"][0]["content"][0]["logprobs"]
    assert [entry["token"] for entry in entries] == ["H", "i"]
    assert [entry for event in events if "delta" in event for entry in event["logprobs"]] == entries


async def test_instructions_and_items_reach_the_template() -> None:
    tokenizer = FakeTokenizer()
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "o"},
        {"type": "custom_tool_call", "foreign": True},
    ]
    async with client_of(make_service(saying(), tokenizer)) as client:
        await posted(client, input=items, instructions="s")

    assert [turn["role"] for turn in tokenizer.calls[-1]["messages"]] == ["system", "user", "assistant", "tool"]  # type: ignore[attr-defined]  # what the fake was called with


async def test_a_path_of_several_methods_names_them_all() -> None:
    async with client_of(make_service(saying())) as client:
        answers = [await client.request(method, f"{PATH}/resp_x") for method in ("PUT", "OPTIONS")]

    assert [answer.status_code for answer in answers] == [405, 204]
    assert {answer.headers["allow"] for answer in answers} == {"DELETE, GET, HEAD"}


# -- what is kept ---------------------------------------------------------------------------------


async def test_a_response_can_be_asked_for_again_until_it_is_deleted() -> None:
    async with client_of(make_service(saying())) as client:
        body = await posted(client)
        again = await got(client, f"{PATH}/{body['id']}")
        deleted = await client.delete(f"{PATH}/{body['id']}")
        gone = [await client.get(f"{PATH}/{body['id']}"), await client.delete(f"{PATH}/{body['id']}")]

    assert again == body
    assert deleted.json() == {"id": body["id"], "object": "response", "deleted": True}
    assert [answer.status_code for answer in gone] == [404, 404]
    assert gone[0].json()["error"]["code"] == "response_not_found"


async def test_a_streamed_response_is_kept_as_its_last_event_says() -> None:
    async with client_of(make_service(saying())) as client:
        *_, last = events_of(await client.post(PATH, json=asked(stream=True)))
        kept = await got(client, f"{PATH}/{last['response']['id']}")

    assert kept == last["response"]


async def test_what_is_not_to_be_stored_is_not() -> None:
    async with client_of(make_service(saying())) as client:
        body = await posted(client, store=False)
        *_, last = events_of(await client.post(PATH, json=asked(store=False, stream=True)))
        answers = [await client.get(f"{PATH}/{id}") for id in (body["id"], last["response"]["id"])]
        follow = await client.post(PATH, json=asked(previous_response_id=body["id"]))

    assert [answer.status_code for answer in answers] == [404, 404]
    assert follow.status_code == 404


async def test_a_conversation_goes_on_from_a_response() -> None:
    tokenizer = FakeTokenizer()
    async with client_of(make_service(saying(), tokenizer)) as client:
        first = await posted(client, input="one", instructions="not carried over")
        second = await posted(client, input="two", previous_response_id=first["id"])
        await posted(client, input="three", previous_response_id=second["id"])

    turns = [(turn["role"], turn["content"]) for turn in tokenizer.calls[-1]["messages"]]  # type: ignore[attr-defined]  # what the fake was called with
    assert turns == [("user", "one"), ("assistant", "Hi"), ("user", "two"), ("assistant", "Hi"), ("user", "three")]


async def test_a_conversation_whose_beginning_is_gone_does_not_go_on() -> None:
    async with client_of(make_service(saying())) as client:
        first = await posted(client)
        second = await posted(client, previous_response_id=first["id"])
        await client.delete(f"{PATH}/{first['id']}")
        answers = [
            await client.post(PATH, json=asked(previous_response_id=id)) for id in (second["id"], first["id"], "resp_x")
        ]
        still = await client.get(f"{PATH}/{second['id']}")

    for answer in answers:
        error = answer.json()["error"]
        assert answer.status_code == 404
        assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
    assert still.status_code == 200


async def test_what_was_put_in_is_listed_page_by_page() -> None:
    turns = [{"role": "user", "content": str(number)} for number in range(5)]
    async with client_of(make_service(saying())) as client:
        body = await posted(client, input=turns)
        path = f"{PATH}/{body['id']}/input_items"
        newest = await got(client, path)
        first = await got(client, f"{path}?order=asc&limit=2")
        rest = await got(client, f"{path}?order=asc&after={first['last_id']}")
        wrong = [await client.get(f"{path}?{query}") for query in ("limit=0", "limit=101", "order=up", "after=x")]

    def texts(page: Body) -> str:
        return "".join(item["content"][0]["text"] for item in page["data"])

    assert (texts(newest), texts(first), texts(rest)) == ("43210", "01", "234")
    assert (first["has_more"], rest["has_more"], first["first_id"]) == (True, False, first["data"][0]["id"])
    assert {answer.status_code for answer in wrong} == {400}


async def test_a_response_without_items_of_its_own_lists_none() -> None:
    async with client_of(make_service(saying())) as client:
        first = await posted(client)
        body = await posted(client, previous_response_id=first["id"], input=[])
        page = await got(client, f"{PATH}/{body['id']}/input_items")

    assert page == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}


async def test_an_item_that_is_kept_can_be_named() -> None:
    tokenizer = FakeTokenizer()
    async with client_of(make_service(saying(), tokenizer)) as client:
        body = await posted(client, input="one")
        named = {"type": "item_reference", "id": body["output"][0]["id"]}
        await posted(client, input=[named, {"role": "user", "content": "two"}])
        unknown = await client.post(PATH, json=asked(input=[{"type": "item_reference", "id": "msg_x"}]))

    turns = [(turn["role"], turn["content"]) for turn in tokenizer.calls[-1]["messages"]]  # type: ignore[attr-defined]  # what the fake was called with
    assert turns == [("assistant", "Hi"), ("user", "two")]
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "item_not_found")


async def test_each_key_has_responses_of_its_own() -> None:
    service = make_service(saying(), settings=make_settings(api_keys=("mine", "yours")))
    mine, yours = ({"authorization": f"Bearer {key}"} for key in ("mine", "yours"))
    async with client_of(service) as client:
        id = (await client.post(PATH, json=asked(), headers=mine)).json()["id"]
        others = [
            await client.get(f"{PATH}/{id}", headers=yours),
            await client.delete(f"{PATH}/{id}", headers=yours),
            await client.get(f"{PATH}/{id}/input_items", headers=yours),
            await client.post(f"{PATH}/{id}/cancel", headers=yours),
            await client.post(PATH, json=asked(previous_response_id=id), headers=yours),
        ]
        own = await client.get(f"{PATH}/{id}", headers=mine)

    assert {answer.status_code for answer in others} == {404}
    assert own.status_code == 200


async def test_input_tokens_are_counted_as_the_answer_would_count_them() -> None:
    async with client_of(make_service(saying())) as client:
        first = await posted(client, input="one")
        again = {"input": "two", "instructions": "be brief", "previous_response_id": first["id"]}
        count = await posted(client, f"{PATH}/input_tokens", **again)
        body = await posted(client, **again)

    assert count == {"object": "response.input_tokens", "input_tokens": body["usage"]["input_tokens"]}


# -- in the background ----------------------------------------------------------------------------


class Case:
    """A server whose model says two tokens, and the rest once `gate` is open."""

    def __init__(self, **settings: Any) -> None:
        self.gate = asyncio.Event()
        self.engine = FakeEngine(script=lambda _request, _choice: Script("Hello", ends=True, gate=self.gate, gate_at=2))
        self.service = make_service(self.engine, settings=make_settings(**settings))

    def num_events(self, id: str) -> int:
        """How many a response has said."""
        telling = self.service.records.find(id, endpoint=Endpoint.RESPONSES, owner="")
        assert telling is not None
        return telling.record.num_events

    def client(self, url: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url)


async def ended(client: httpx.AsyncClient, id: str) -> Body:
    """A response once nothing of it is to come."""
    while (body := await got(client, f"{PATH}/{id}"))["status"] in ("queued", "in_progress"):  # noqa: ASYNC110  # as a client polls
        await asyncio.sleep(0.001)
    return body


async def test_a_response_in_the_background_runs_on_without_its_client() -> None:
    case = Case()
    async with listening(case.service) as url:
        async with case.client(url) as client:
            body = await posted(client, background=True)
        async with case.client(url) as client:
            await until(lambda: case.num_events(body["id"]) > 4)
            meanwhile = await got(client, f"{PATH}/{body['id']}")
            too_early = await client.post(PATH, json=asked(previous_response_id=body["id"]))
            case.gate.set()
            done = await ended(client, body["id"])
            kept = await case.service.store.get(body["id"], owner="")

    assert (body["status"], body["background"], body["output"]) == ("queued", True, [])
    assert (meanwhile["status"], meanwhile["output"][0]["content"][0]["text"]) == ("in_progress", "He")
    assert (too_early.status_code, too_early.json()["error"]["param"]) == (400, "previous_response_id")
    assert (done["status"], done["output"][0]["content"][0]["text"]) == ("completed", "Hello")
    assert kept is not None
    assert kept.body == done
    assert case.engine.opened[0].num_parks == 0


async def test_a_response_in_the_background_can_be_streamed_and_followed_from_any_event() -> None:
    case = Case()
    async with listening(case.service) as url, case.client(url) as client:
        async with client.stream("POST", PATH, json=asked(background=True, stream=True)) as stream:
            received = ""
            async for part in stream.aiter_text():
                received += part
                if received.count("\n\n") >= 5:
                    break
        first = frames_of(received)[0]
        id = json.loads(first["data"])["response"]["id"]
        async with asyncio.TaskGroup() as group:
            following = group.create_task(client.get(f"{PATH}/{id}?stream=true&starting_after=1"))
            resuming = group.create_task(client.post(PATH, headers={"last-event-id": f"{id}:3"}))
            await asyncio.sleep(0)
            case.gate.set()
        whole = events_of(await client.get(f"{PATH}/{id}?stream=true"))

    assert [event["type"].removeprefix("response.") for event in whole][:4] == [
        "created", "queued", "in_progress", "output_item.added"
    ]  # fmt: skip
    assert whole[-1]["type"] == "response.completed"
    assert events_of(following.result()) == whole[2:]
    assert events_of(resuming.result()) == whole[4:]


async def test_a_response_in_the_background_can_be_cancelled() -> None:
    case = Case()
    async with listening(case.service) as url, case.client(url) as client:
        body = await posted(client, background=True)
        cancelled = await client.post(f"{PATH}/{body['id']}/cancel")
        again = await client.post(f"{PATH}/{body['id']}/cancel")
        kept = await got(client, f"{PATH}/{body['id']}")
        *_, last = events_of(await client.get(f"{PATH}/{body['id']}?stream=true"))

    assert cancelled.json()["status"] == "cancelled"
    assert cancelled.json() == again.json() == kept == last["response"]
    assert last["type"] == "response.incomplete"
    assert case.engine.opened[0].closed
    assert case.service.requests.view().totals[Endpoint.RESPONSES, Outcome.ABORTED] == 1


async def test_only_what_runs_in_the_background_can_be_cancelled() -> None:
    case = Case()
    case.gate.set()
    async with listening(case.service) as url, case.client(url) as client:
        body = await posted(client)
        whole = await client.post(f"{PATH}/{body['id']}/cancel")
        unknown = await client.post(f"{PATH}/resp_x/cancel")

    assert (whole.status_code, unknown.status_code) == (400, 404)


async def test_a_response_that_is_deleted_as_it_runs_ends_and_is_not_kept() -> None:
    case = Case()
    async with listening(case.service) as url, case.client(url) as client:
        body = await posted(client, background=True)
        deleted = await client.delete(f"{PATH}/{body['id']}")
        await until(lambda: case.engine.opened[0].closed)
        answers = [await client.get(f"{PATH}/{body['id']}{query}") for query in ("", "?stream=true")]
        case.service.records.check()

    assert deleted.status_code == 200
    assert [answer.status_code for answer in answers] == [404, 404]


async def test_a_response_in_the_background_that_fails_says_so() -> None:
    service = make_service(saying(failure=StepFailed(request_id="x", cause="boom"), failure_at=1))
    async with listening(service) as url, httpx.AsyncClient(base_url=url) as client:
        body = await posted(client, background=True)
        failed = await ended(client, body["id"])

    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert failed["output"][0]["status"] == "incomplete"


async def test_no_response_runs_in_the_background_of_a_server_that_ends() -> None:
    case = Case()
    async with client_of(case.service) as client:
        answer = await client.post(PATH, json=asked(background=True))

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
    assert case.engine.opened[0].closed
    case.service.records.check()


async def test_a_full_queue_refuses_the_background_too() -> None:
    service = make_service(FakeEngine(refusal=QueueFull(waiting=1, limit=1, retry_after_seconds=1)))
    async with listening(service) as url, httpx.AsyncClient(base_url=url) as client:
        answer = await client.post(PATH, json=asked(background=True))

    assert answer.status_code == 429


# -- streams --------------------------------------------------------------------------------------


async def test_a_stream_that_fails_ends_with_the_response_and_its_error() -> None:
    service = make_service(saying(failure=StepFailed(request_id="x", cause="boom"), failure_at=1))
    async with client_of(service) as client:
        *_, last = events_of(await client.post(PATH, json=asked(stream=True)))
        kept = await got(client, f"{PATH}/{last['response']['id']}")

    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"] == {"code": "server_error", "message": "the model step failed on this request"}
    assert kept == last["response"]


async def test_a_stream_that_was_left_goes_on_for_who_gets_it() -> None:
    case = Case()
    async with listening(case.service) as url, case.client(url) as client:
        async with client.stream("POST", PATH, json=asked(stream=True)) as stream:
            received = ""
            async for part in stream.aiter_text():
                received += part
                if received.count("\n\n") >= 3:
                    break
        id = json.loads(frames_of(received)[0]["data"])["response"]["id"]
        await until(lambda: case.engine.opened[0].parked)
        meanwhile = await got(client, f"{PATH}/{id}")
        case.gate.set()
        events = events_of(await client.get(f"{PATH}/{id}?stream=true&starting_after=2"))

    assert meanwhile["status"] == "in_progress"
    assert [event["sequence_number"] for event in events] == list(range(3, 3 + len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"


async def test_a_browser_that_comes_back_says_by_a_header_what_arrived() -> None:
    case = Case()
    case.gate.set()
    async with listening(case.service) as url, case.client(url) as client:
        id = (await posted(client, background=True))["id"]
        path = f"{PATH}/{id}?stream=true&starting_after=0"
        rest = events_of(await client.get(path, headers={"last-event-id": f"{id}:2"}))
        others = await client.get(path, headers={"last-event-id": f"{id}0:2"})
        none = await client.get(path, headers={"last-event-id": id})

    assert rest[0]["sequence_number"] == 3
    assert others.status_code == none.status_code == 404


@pytest.mark.parametrize("query", ["?stream=true&starting_after=99", "?stream=true&starting_after=x", "?stream=maybe"])
async def test_what_can_t_be_streamed_is_refused(query: str) -> None:
    async with client_of(make_service(saying())) as client:
        body = await posted(client)
        answer = await client.get(f"{PATH}/{body['id']}{query}")

    assert answer.status_code in (400, 404)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": [5]}, "input[0]"),
        ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "refusal", "text": "x"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"conversation": "c"}, "conversation"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"input": "x" * (CONTEXT + 1)}, "input"),
        ({"model": "nope"}, "model"),
    ],
)
async def test_what_is_wrong_is_named(fields: Body, param: str) -> None:
    async with client_of(make_service(saying())) as client:
        answer = await client.post(PATH, json=asked(**fields))

    assert answer.status_code == (404 if param == "model" else 400)
    assert answer.json()["error"]["param"] == param
