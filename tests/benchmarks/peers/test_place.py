import sys

import pytest

from benchmarks.peers.place import PeerMissing, fingerprint, install_step


def test_a_fingerprint_is_the_same_each_time() -> None:
    assert fingerprint() == fingerprint()


def test_a_step_that_fails_says_whose_it_is_and_how_it_ended() -> None:
    with pytest.raises(PeerMissing, match=r"llama.cpp could not be installed: .* exit status 3"):
        install_step("llama.cpp", [sys.executable, "-c", "raise SystemExit(3)"])


def test_a_step_whose_program_is_missing_is_told_too() -> None:
    with pytest.raises(PeerMissing, match="no-such-program"):
        install_step("llama.cpp", ["no-such-program"])


def test_what_a_step_writes_goes_to_the_errors(capfd: pytest.CaptureFixture[str]) -> None:
    install_step("llama.cpp", [sys.executable, "-c", "print('configured')"])

    written = capfd.readouterr()
    assert written.out == ""
    assert "configured" in written.err
