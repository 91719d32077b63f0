from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.lm_eval.samples import Samples, difference, read_samples
from tests.lm_eval.table import table

RUN = Samples(
    scores={"choice acc": 0.75, "passage word_perplexity": 20.0},
    scored={"choice 0 0": (-2.0, True), "choice 0 1": (-8.0, False), "passage 0 0": (-100.0, None)},
    said={"say 0 0": " west"},
)


def test_what_the_harness_wrote_is_read_by_task_and_request(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    found = {"choice": {"alias": "choice", "acc,none": 0.75, "acc_stderr,none": 0.1, "sample_len": 2}}
    (folder / "results_2026.json").write_bytes(orjson.dumps({"results": found}))
    samples = {
        "choice": [{"doc_id": 3, "resps": [[["-2.5", "True"]], [[-8, False]]], "arguments": {}}],
        "passage": [{"doc_id": 0, "resps": [["-100.0"]], "arguments": {"arg_0": "a text"}}],
        "say": [{"doc_id": 0, "resps": [[" west"]], "arguments": {"arg_1": {"until": ["."]}}}],
    }
    for task, lines in samples.items():
        (folder / f"samples_{task}_2026.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))

    assert read_samples(tmp_path) == Samples(
        scores={"choice acc": 0.75},
        scored={"choice 3 0": (-2.5, True), "choice 3 1": (-8.0, False), "passage 0 0": (-100.0, None)},
        said={"say 0 0": " west"},
    )


def test_a_run_differs_in_nothing_from_itself_and_hardly_from_one_that_rounds_otherwise() -> None:
    near = replace(
        RUN, scores={**RUN.scores, "passage word_perplexity": 20.1}, scored={**RUN.scored, "choice 0 1": (-8.1, False)}
    )

    assert difference(RUN, RUN).is_none
    assert difference(near, RUN).is_none


@pytest.mark.parametrize(
    "other",
    [
        replace(RUN, scores={**RUN.scores, "choice acc": 0.5}),
        replace(RUN, scores={**RUN.scores, "passage word_perplexity": 21.0}),
        replace(RUN, scored={**RUN.scored, "choice 0 1": (-9.0, False)}),
        replace(RUN, scored={**RUN.scored, "choice 0 1": (-8.0, True)}),
        replace(RUN, said={"say 0 0": " east"}),
    ],
)
def test_another_score_logprob_verdict_or_text_is_a_difference(other: Samples) -> None:
    assert not difference(other, RUN).is_none


def test_runs_of_other_requests_are_not_compared() -> None:
    with pytest.raises(ValueError, match="not asked the same"):
        difference(RUN, replace(RUN, said={}))


def test_the_table_has_a_column_a_run_and_compares_it() -> None:
    other = replace(RUN, scored={**RUN.scored, "choice 0 1": (-8.4, True)}, said={"say 0 0": " east"})

    rows = table({"plain": RUN, "ours": other}, reference="plain").splitlines()

    assert rows[0] == "|  | plain | ours |"
    assert rows[2:] == [
        "| choice acc | 0.75 | 0.75 |",
        "| passage word_perplexity | 20 | 20 |",
        "| largest difference of a log-probability |  | 5.00% |",
        "| requests that are greedy for one alone |  | 1 of 3 |",
        "| texts that differ |  | 1 of 1 |",
    ]
