from hypothesis import given, strategies as st

from engine.draft.agreement import agreement

TOKENS = st.lists(st.integers(0, 1), max_size=12)


@given(run=TOKENS, other=TOKENS, most=st.integers(0, 9), ends=st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_it_is_the_longest_common_end_of_what_stands_before(
    run: list[int], other: list[int], most: int, ends: tuple[int, int]
) -> None:
    one, two = run[: ends[0]], other[: ends[1]]

    found = agreement(run, len(one), other, len(two), most=most)

    longest = max(count for count in range(len(one) + 1) if two[len(two) - count :] == one[len(one) - count :])
    assert found == min(most, longest)
