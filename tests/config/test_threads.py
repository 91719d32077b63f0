"""What OpenMP is told before it is loaded."""

from config.threads import let_threads_sleep


def test_threads_sleep_by_default() -> None:
    environ: dict[str, str] = {}

    let_threads_sleep(environ)

    assert environ == {"OMP_WAIT_POLICY": "PASSIVE"}


def test_the_users_own_policy_stands() -> None:
    environ = {"OMP_WAIT_POLICY": "ACTIVE"}

    let_threads_sleep(environ)

    assert environ == {"OMP_WAIT_POLICY": "ACTIVE"}
