from server.prompt import Prompt
from server.requests import Wanted, requests_of, sampling_of, skips_special, stopping_of
from server.wire.sampling import SamplingFields

EOS_IDS = frozenset({2})


def fields(**given: object) -> SamplingFields:
    return SamplingFields.model_validate({"model": "m", **given})


def test_defaults_sample_freely_and_stop_at_the_end() -> None:
    sampling, stopping = sampling_of(fields()), stopping_of(fields(), max_tokens=None, eos_ids=EOS_IDS)

    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (1.0, 1.0, None, 0.0)
    assert not sampling.penalizes
    assert (stopping.eos_ids, stopping.strings, stopping.token_ids) == (EOS_IDS, (), frozenset())
    assert skips_special(fields())


def test_a_tiny_temperature_is_greedy() -> None:
    assert sampling_of(fields(temperature=1e-300)).greedy
    assert sampling_of(fields(temperature=0)).greedy
    assert not sampling_of(fields(temperature=0.01)).greedy


def test_no_top_k_has_three_spellings() -> None:
    assert [sampling_of(fields(top_k=value)).top_k for value in (None, 0, -1, 5)] == [None, None, None, 5]


def test_every_64_bit_seed_is_kept_and_none_draws_one() -> None:
    given = [sampling_of(fields(seed=seed)).seed for seed in (0, 7, 2**64 - 1, -(2**63))]
    drawn = {sampling_of(fields()).seed for _ in range(4)}

    assert given == [0, 7, 2**64 - 1, 2**63]
    assert len(drawn) == 4
    assert all(0 <= seed < 2**64 for seed in drawn)


def test_one_stop_string_is_a_list_of_one() -> None:
    assert stopping_of(fields(stop="a"), max_tokens=1, eos_ids=EOS_IDS).strings == ("a",)
    assert stopping_of(fields(stop=["a", "b"]), max_tokens=1, eos_ids=EOS_IDS).strings == ("a", "b")


def test_each_prompt_is_a_request_with_a_name_of_its_own() -> None:
    one = requests_of("x", fields(), [Prompt((1,))], Wanted(3, None), eos_ids=EOS_IDS)
    two = requests_of("x", fields(n=2), [Prompt((1,)), Prompt((2,))], Wanted(3, 1, 1), eos_ids=EOS_IDS)

    assert [request.id for request in one] == ["x"]
    assert [(request.id, request.prompt, request.num_choices) for request in two] == [
        ("x-0", (1,), 2),
        ("x-1", (2,), 2),
    ]
    assert two[0].sampling.seed != two[1].sampling.seed
