import math

from engine.request import Delta, End, FinishReason, OutputToken, TokenLogprob, Usage
from engine.text import Vocabulary
from server.render.logprobs import LOWEST, best, chat_logprobs, completion_logprobs, floored, label, scores_by_id
from server.render.reply import Reply

VOCABULARY = Vocabulary([b"a", b"b", b"\xc3", b"\xa9", b"<end>"], frozenset({4}))


def reply(*, top_logprobs: int | None = 1, skip_special: bool = True) -> Reply:
    return Reply(
        id="x",
        created=0,
        model="m",
        fingerprint="f",
        vocabulary=VOCABULARY,
        num_choices=1,
        top_logprobs=top_logprobs,
        prompt_logprobs=None,
        skip_special=skip_special,
        shows_tokens=False,
        shows_usage=False,
    )


def output(token: int, *, in_text: bool = True) -> OutputToken:
    return OutputToken(token, 0, in_text, TokenLogprob(token, -1.0, ((0, -0.5), (1, -1.0))))


def ended(*tokens: OutputToken, matched: str | int | None = None) -> Delta:
    return Delta(0, "", tokens, end=End(FinishReason.STOP, Usage(1, 0, len(tokens)), matched))


def test_a_log_probability_that_json_has_not_is_the_lowest() -> None:
    assert [floored(value) for value in (-1.5, -math.inf, math.nan, -1e9)] == [-1.5, LOWEST, LOWEST, LOWEST]


def test_the_chosen_token_is_listed_once_wherever_it_stands() -> None:
    scored = TokenLogprob(1, -1.0, ((0, -0.5), (1, -1.0)))

    assert best(scored, 2) == [(0, -0.5), (1, -1.0)]
    assert best(scored, 1) == [(0, -0.5), (1, -1.0)]
    assert best(scored, 0) == [(1, -1.0)]


def test_no_two_tokens_have_one_label() -> None:
    assert [label(token, VOCABULARY) for token in range(5)] == ["a", "b", "bytes:\\xc3", "bytes:\\xa9", "<end>"]


def test_a_stop_token_is_listed_by_completions_alone() -> None:
    delta = ended(output(0), output(4, in_text=False))

    listed = completion_logprobs(delta, reply(), text_start=3)
    chat = chat_logprobs(delta.tokens, reply())

    assert listed is not None
    assert chat is not None
    assert listed["tokens"] == ["a", ""]
    assert listed["text_offset"] == [3, 3]
    assert listed["top_logprobs"][1] == {"a": -0.5, "": -1.0}
    assert [entry["token"] for entry in chat["content"]] == ["a"]


def test_a_token_of_the_clients_that_stops_is_listed_too() -> None:
    listed = completion_logprobs(ended(output(1, in_text=False), matched=1), reply(), text_start=0)

    assert listed is not None
    assert listed["tokens"] == [""]


def test_what_stands_behind_a_stop_string_is_listed_by_nobody() -> None:
    delta = ended(output(0), output(1, in_text=False), matched="b")

    listed = completion_logprobs(delta, reply(), text_start=0)

    assert listed is not None
    assert listed["tokens"] == ["a"]


def test_a_control_token_has_bytes_only_where_it_is_in_the_text() -> None:
    shown = chat_logprobs([output(4)], reply(skip_special=False))
    skipped = chat_logprobs([output(4)], reply())

    assert shown is not None
    assert skipped is not None
    assert shown["content"][0]["bytes"] == list(b"<end>")
    assert (skipped["content"][0]["bytes"], skipped["content"][0]["token"]) == ([], "<end>")


def test_nothing_is_listed_where_nothing_was_asked_for() -> None:
    assert chat_logprobs([output(0)], reply(top_logprobs=None)) is None
    assert completion_logprobs(ended(output(0)), reply(top_logprobs=None), text_start=0) is None


def test_scores_by_id_have_the_ranks_that_are_known() -> None:
    scores = (None, TokenLogprob(2, -3.0, ((0, -0.5), (1, -1.0))), TokenLogprob(1, -1.0, ((0, -0.5), (1, -1.0))))

    assert scores_by_id(scores, 2, VOCABULARY) == [
        None,
        {
            "0": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
            "1": {"logprob": -1.0, "rank": 2, "decoded_token": "b"},
            "2": {"logprob": -3.0, "rank": None, "decoded_token": "\ufffd"},
        },
        {
            "0": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
            "1": {"logprob": -1.0, "rank": 2, "decoded_token": "b"},
        },
    ]


def test_scores_of_the_tokens_alone_list_no_others_and_floor_what_json_has_not() -> None:
    [first] = scores_by_id([TokenLogprob(0, -math.inf)], 0, VOCABULARY)

    assert first == {"0": {"logprob": LOWEST, "rank": None, "decoded_token": "a"}}
