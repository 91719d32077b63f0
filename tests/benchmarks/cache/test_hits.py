from benchmarks.cache.hits import Hits, hits_text

SECONDS = ((1.0, 0.5, 0.1), (2.0, 0.5, 0.4), (1.0, 0.5, 0.14))


def test_the_third_prompt_is_told_as_a_share_of_the_first_of_its_round() -> None:
    text = hits_text([Hits("m", SECONDS, (0, 768, 912))])

    assert "| m | 1,000 (1,000 to 2,000) | 500 (500 to 500) | 768 | 140 (100 to 400) | 912 |" in text
    assert "| 14.0% (10.0% to 20.0%) |" in text


def test_models_that_save_too_little_are_counted() -> None:
    text = hits_text([Hits("a", SECONDS, (0, 768, 912)), Hits("b", SECONDS[1:2], (0, 768, 912))])

    assert "kept by 1 of 2 models. Medians of 3 rounds" in text
