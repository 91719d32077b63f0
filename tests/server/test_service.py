import pytest
from fastapi import FastAPI
from starlette.requests import Request

from server.errors import ApiError
from server.service import Service, State
from tests.fakes import INFO, FakeEngine, FakeTokenizer, make_service, make_settings


def test_a_model_is_served_under_its_name_and_its_aliases() -> None:
    loaded = make_service().loaded()

    assert loaded.names == ("org/tiny", "gpt-4o")
    loaded.check_name("gpt-4o")
    with pytest.raises(ApiError) as caught:
        loaded.check_name("gpt-5")
    assert caught.value.status == 404


def test_without_a_model_there_is_the_reason() -> None:
    service = Service(make_settings())

    with pytest.raises(ApiError) as loading:
        service.loaded()
    service.fail()
    with pytest.raises(ApiError) as failed:
        service.loaded()

    assert service.model is None
    assert (loading.value.status, loading.value.body["code"]) == (503, "model_loading")
    assert (failed.value.status, failed.value.body["code"]) == (503, "engine_stopped")


def test_the_state_is_what_stands_between_a_request_and_its_answer() -> None:
    engine = FakeEngine()
    service = make_service(engine)
    loading = Service(make_settings())
    seen = [loading.state, service.state]

    engine.stalled = True
    seen.append(service.state)
    engine.accepting = False
    seen.append(service.state)
    service.fail()
    seen.append(service.state)

    assert seen == [State.LOADING, State.READY, State.STALLED, State.DRAINING, State.STOPPED]


def test_time_is_whole_seconds() -> None:
    service = make_service()

    assert (service.started, service.now()) == (1_700_000_000, 1_700_000_000)


def test_the_fingerprint_changes_with_what_could_change_an_answer() -> None:
    other = FakeEngine(
        info=type(INFO)(**{name: getattr(INFO, name) for name in INFO.__slots__} | {"dtype": "bfloat16"})
    )

    same, different = make_service().loaded().fingerprint, make_service(other, FakeTokenizer()).loaded().fingerprint

    assert same == make_service().loaded().fingerprint
    assert same != different


def test_a_request_finds_its_service() -> None:
    app = FastAPI()
    app.state.service = make_service()

    assert Service.of(Request({"type": "http", "app": app})) is app.state.service
