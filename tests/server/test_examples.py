from server.examples import EXAMPLES, examples_of


def test_an_example_asks_for_the_model_that_is_served() -> None:
    examples = examples_of("/v1/detokenize", model="org/tiny")

    assert [example["value"] for example in examples.values()] == [{"model": "org/tiny", "tokens": [40, 41, 42]}]


def test_a_path_without_examples_has_none() -> None:
    assert examples_of("/v1/models", model="org/tiny") == {}


def test_the_examples_of_a_path_have_titles_of_their_own() -> None:
    for path, examples in EXAMPLES.items():
        assert len(examples_of(path, model="m")) == len(examples)
