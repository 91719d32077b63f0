from engine.request import End, FinishReason, Usage
from server.render.reply import finish_reason, new_id, usage_body


def test_a_prompt_counts_once_as_its_first_choice_saw_it() -> None:
    usages = {
        (0, 1): Usage(prompt_tokens=5, cached_tokens=4, output_tokens=2),
        (0, 0): Usage(prompt_tokens=5, cached_tokens=0, output_tokens=3),
        (1, 0): Usage(prompt_tokens=7, cached_tokens=6, output_tokens=0),
    }

    body = usage_body(usages)

    assert (body["prompt_tokens"], body["completion_tokens"], body["total_tokens"]) == (12, 5, 17)
    assert body["prompt_tokens_details"]["cached_tokens"] == 6


def test_details_are_zero_and_never_null() -> None:
    assert set(usage_body({})["completion_tokens_details"].values()) == {0}
    assert usage_body({})["prompt_tokens_details"] == {"cached_tokens": 0}


def test_a_reason_is_one_of_openais() -> None:
    usage = Usage(1, 0, 1)

    assert finish_reason(End(FinishReason.STOP, usage), calls=False) == "stop"
    assert finish_reason(End(FinishReason.STOP, usage), calls=True) == "tool_calls"
    assert finish_reason(End(FinishReason.LENGTH, usage), calls=True) == "length"


def test_no_two_ids_are_the_same() -> None:
    assert len({new_id("cmpl") for _ in range(100)}) == 100
    assert new_id("chatcmpl").startswith("chatcmpl-")
