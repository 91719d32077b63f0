from config.inherited import inherited


def test_a_process_is_given_what_it_finds_its_modules_by_and_no_keys() -> None:
    environ = {"PATH": "/bin", "PYTHONPATH": "/lib", "TIDEMARK_SERVER__API_KEYS": "secret", "HTTP_PROXY": "u:p@h"}

    assert inherited(environ) == {"PATH": "/bin", "PYTHONPATH": "/lib"}
