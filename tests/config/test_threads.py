"""What OpenMP is told before it is loaded."""

import pytest

from config.threads import SPIN_COUNT, let_threads_sleep, told_threads


def test_threads_sleep_after_a_short_spin() -> None:
    environ: dict[str, str] = {}

    let_threads_sleep(environ)

    assert environ == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": str(SPIN_COUNT)}


@pytest.mark.parametrize("policy", ["ACTIVE", "PASSIVE"])
def test_the_users_own_policy_stands(policy: str) -> None:
    environ = {"OMP_WAIT_POLICY": policy}

    let_threads_sleep(environ)

    assert environ == {"OMP_WAIT_POLICY": policy}


def test_the_users_own_spin_stands() -> None:
    environ = {"GOMP_SPINCOUNT": "7"}

    let_threads_sleep(environ)

    assert environ["GOMP_SPINCOUNT"] == "7"


def test_what_the_user_tells_openmp_is_known_by_its_names() -> None:
    environ = {"PATH": "/", "OMP_NUM_THREADS": "4", "GOMP_CPU_AFFINITY": "0-3", "KMP_AFFINITY": "none"}

    assert list(told_threads(environ)) == ["GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_NUM_THREADS"]
