"""A model answers what was asked, or there is an error that gives nothing away; no other address is
ever called."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, ValidationError

from memsvc.adapters.model_client import ModelClient
from memsvc.adapters.models import llm
from memsvc.adapters.options import KEYS, ModelOptions
from memsvc.core.errors import Code, MemsvcError, ModelOutputError
from tests.endpoints import Fault, Provider, provider
from tests.fakes import RecordingMeter

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret"
TEXT = "the secret text of somebody"
MODELS = ("openai:m", "openai-chat:m", "anthropic:m")
PATHS = {
    "openai:m": "/v1/responses",
    "openai-chat:m": "/v1/chat/completions",
    "anthropic:m": "/v1/messages",
}
PASSING: tuple[Fault, ...] = (
    "hang up",
    "busy",
    "busy for 0 s",
    "broken",
    "truncated",
    "refuses the key",
)
WRONG: tuple[Fault, ...] = (
    "garbage", "a list", "half", "nothing", "huge", "compressed", "redirect", "refuses",
    "refuses the text", "another object",
)  # fmt: skip


class Found(BaseModel):
    """What an extraction is asked for."""

    place: str
    trains: int


@pytest.fixture
async def there(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with provider() as made:
        yield made


@asynccontextmanager
async def asking(
    there: Provider, meter: RecordingMeter, **options: Any
) -> AsyncIterator[ModelClient]:
    chosen = {
        "model": "openai:m",
        "base_url": there.url,
        "api_key": KEY,
        "retries": 0,
        "timeout_ms": 20_000,
    } | options
    async with llm(ModelOptions(**chosen), meter) as made:
        assert made is not None
        yield made


def told(call: Any) -> str:
    """Everything that was sent."""
    return json.dumps(call.body)


@pytest.mark.parametrize("model", MODELS)
async def test_a_text_is_asked_for_with_instructions_and_within_tokens(
    there: Provider, meter: RecordingMeter, model: str
) -> None:
    async with asking(there, meter, model=model) as made:
        assert made.model == model
        assert (
            await made.complete("Say what it is about.", TEXT, output_tokens_max=321) == there.says
        )
    (call,) = there.calls
    assert call.path == PATHS[model]
    assert "Say what it is about." in told(call)
    assert TEXT in told(call)
    assert call.body["model"] == "m"
    limits = ("max_output_tokens", "max_completion_tokens", "max_tokens")
    assert [call.body[name] for name in limits if name in call.body] == [321]
    assert (
        meter.total("memsvc_model_tokens_total", direction="input"),
        meter.total("memsvc_model_tokens_total"),
    ) == (
        70,
        77,
    )


@pytest.mark.parametrize("model", MODELS)
async def test_what_is_found_has_the_shape_asked_for(
    there: Provider, meter: RecordingMeter, model: str
) -> None:
    there.finds = {"place": "Vienna", "trains": 2}
    async with asking(there, meter, model=model) as made:
        found = await made.extract("Find the trains.", TEXT, Found, output_tokens_max=99)
    assert found == Found(place="Vienna", trains=2)
    assert len(there.calls) == 1
    assert meter.total("memsvc_model_tokens_total", direction="output") == 7


async def test_an_openai_response_is_not_kept_by_the_provider(
    there: Provider, meter: RecordingMeter
) -> None:
    async with asking(there, meter) as made:
        await made.complete("x", TEXT, output_tokens_max=9)
    assert there.calls[0].body["store"] is False


@pytest.mark.parametrize("model", MODELS)
async def test_another_shape_is_an_error_after_one_more_try(
    there: Provider, meter: RecordingMeter, model: str
) -> None:
    there.finds = {"place": "the secret text came back"}
    async with asking(there, meter, model=model) as made:
        with pytest.raises(MemsvcError) as refused:
            await made.extract("Find the trains.", TEXT, Found, output_tokens_max=99)
    assert refused.value.code is Code.INTERNAL_ERROR
    assert isinstance(refused.value, ModelOutputError)
    assert "secret" not in str(refused.value.body())
    assert len(there.calls) == 2


@pytest.mark.parametrize("model", MODELS)
async def test_a_text_in_place_of_what_was_to_be_found_is_an_error(
    there: Provider, meter: RecordingMeter, model: str
) -> None:
    there.always = "says why not"
    async with asking(there, meter, model=model) as made:
        with pytest.raises(MemsvcError) as refused:
            await made.extract("Find the trains.", TEXT, Found, output_tokens_max=99)
    assert refused.value.code is Code.INTERNAL_ERROR


@pytest.mark.parametrize("fault", [*PASSING, *WRONG])
@pytest.mark.parametrize("model", MODELS)
async def test_a_fault_is_named_and_tells_nothing(
    there: Provider, meter: RecordingMeter, model: str, fault: Fault
) -> None:
    there.always = fault
    async with asking(there, meter, model=model) as made:
        with pytest.raises(MemsvcError) as refused:
            await made.complete("x", TEXT, output_tokens_max=9)
    assert refused.value.code is (Code.UNAVAILABLE if fault in PASSING else Code.INTERNAL_ERROR), (
        refused.value.message
    )
    # only these are about the text that was sent: it may be given up
    is_of_text = fault in ("nothing", "refuses the text")
    assert isinstance(refused.value, ModelOutputError) is is_of_text
    # waiting mends no settings
    if fault in ("refuses", "refuses the key"):
        assert refused.value.retryable is False
    body = json.dumps(refused.value.body())
    assert "secret" not in body
    assert KEY not in body
    assert "127.0.0.1" not in body
    assert len(there.calls) == 1


@pytest.mark.parametrize("model", MODELS)
async def test_a_refused_key_is_told_to_operators_and_passes_once_it_is_mended(
    there: Provider, meter: RecordingMeter, model: str
) -> None:
    there.plan.append("refuses the key")
    async with asking(there, meter, model=model) as made:
        with pytest.raises(MemsvcError) as refused:
            await made.complete("x", TEXT, output_tokens_max=9)
        assert made.refused
        assert (refused.value.code, refused.value.retry_after_s) == (Code.UNAVAILABLE, 60.0)
        assert refused.value.recovery == "check model.api_key and the name of the model"
        assert meter.total("memsvc_model_refusals_total") == 1
        await made.complete("x", TEXT, output_tokens_max=9)
        assert not made.refused


@pytest.mark.parametrize("model", MODELS)
async def test_what_may_pass_is_tried_again_so_often(
    there: Provider, meter: RecordingMeter, model: str
) -> None:
    there.plan.extend(["busy for 0 s", "broken"])
    async with asking(there, meter, model=model, retries=2) as made:
        assert await made.complete("x", TEXT, output_tokens_max=9) == there.says
    assert len(there.calls) == 3
    there.always = "busy for 0 s"
    async with asking(there, meter, model=model, retries=1) as made:
        with pytest.raises(MemsvcError) as refused:
            await made.complete("x", TEXT, output_tokens_max=9)
    assert refused.value.code is Code.UNAVAILABLE
    assert len(there.calls) == 5


@pytest.mark.parametrize(
    ("fault", "retries"), [("slow", 0), ("slow", 5), ("busy for an hour", 5), ("broken", 20)]
)
@pytest.mark.parametrize("model", MODELS)
async def test_all_attempts_together_are_within_the_time(
    there: Provider, meter: RecordingMeter, model: str, fault: Fault, retries: int
) -> None:
    there.always = fault
    async with asking(there, meter, model=model, retries=retries, timeout_ms=300) as made:
        with pytest.raises(MemsvcError) as refused:
            await made.complete("x", TEXT, output_tokens_max=9)
    assert refused.value.code is Code.UNAVAILABLE
    assert len(there.calls) <= 3


async def test_nobody_there_is_unavailable(meter: RecordingMeter) -> None:
    nobody = ModelOptions(model="openai:m", base_url="http://127.0.0.1:1", api_key=KEY, retries=0)
    async with llm(nobody, meter) as made:
        assert made is not None
        with pytest.raises(MemsvcError) as refused:
            await made.complete("x", TEXT, output_tokens_max=9)
    assert refused.value.code is Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("model", "variable"), [("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")]
)
async def test_the_key_is_that_of_the_settings_or_of_the_environment_or_none(
    there: Provider,
    meter: RecordingMeter,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    variable: str,
) -> None:
    for key, environment in ((KEY, "sk-other"), ("", "sk-other"), ("", None)):
        if environment:
            monkeypatch.setenv(variable, environment)
        else:
            monkeypatch.delenv(variable)
        async with asking(there, meter, model=model, api_key=key) as made:
            await made.complete("x", TEXT, output_tokens_max=9)
    assert there.keys == [f"Bearer {key}" for key in (KEY, "sk-other", "none")]


@pytest.mark.parametrize("url", ["", "https://api.openai.com", "https://api.anthropic.com/v1"])
@pytest.mark.parametrize("model", MODELS)
async def test_a_providers_own_endpoint_is_not_opened_without_a_key(
    there: Provider, meter: RecordingMeter, model: str, url: str
) -> None:
    with pytest.raises(MemsvcError) as refused:
        async with llm(ModelOptions(model=model, base_url=url), meter, "the.section"):
            pass
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.message == "the model in section the.section has no API key"
    assert refused.value.recovery in (
        f"set the.section.api_key or {name}" for name in set(KEYS.values())
    )


async def test_nothing_of_the_environment_changes_where_a_call_goes(
    there: Provider, meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = "http://127.0.0.1:1"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, elsewhere)
        monkeypatch.setenv(name.lower(), elsewhere)
    for model in MODELS:
        async with asking(there, meter, model=model) as made:
            assert await made.complete("x", TEXT, output_tokens_max=9) == there.says
    assert [call.path for call in there.calls] == list(PATHS.values())


async def test_an_address_off_the_loopback_is_out_of_reach_of_tests(meter: RecordingMeter) -> None:
    async with httpx2.AsyncClient() as client:
        with pytest.raises(AssertionError, match="loopback"):
            await client.get("https://api.openai.com/v1/models")
    for model in MODELS:
        async with llm(ModelOptions(model=model, api_key=KEY, retries=0), meter) as made:
            assert made is not None
            with pytest.raises(MemsvcError):
                await made.complete("x", TEXT, output_tokens_max=9)


async def test_without_a_name_there_is_no_model(meter: RecordingMeter) -> None:
    async with llm(ModelOptions(), meter) as made:
        assert made is None


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", ""),
        ("https://host", "https://host/v1"),
        ("https://host/", "https://host/v1"),
        ("https://host/v1", "https://host/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("http://host:8080/llm", "http://host:8080/llm/v1"),
        ("https://host/v1/responses", "https://host/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/v1/messages", "https://host/v1"),
        ("https://host/api/v3/chat/completions", "https://host/api/v3"),
        ("https://host/api/v3/responses/", "https://host/api/v3"),
    ],
)
def test_a_base_url_may_be_the_root_the_version_or_the_call(
    model: str, given: str, meant: str
) -> None:
    assert ModelOptions(model=model, base_url=given).endpoint_url == meant


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "host/v1"},
        {"base_url": "ftp://host"},
        {"base_url": "https://host/v1?a=b"},
        {"base_url": "https://host/v1#a"},
        {"base_url": "https://me:secret@host"},
        {"model": "gpt"},
        {"model": "azure:gpt"},
        {"model": "openai:"},
        {"timeout_ms": 0},
        {"retries": -1},
        {"temperature": 1},
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelOptions(**{"model": "openai:m"} | wrong)


def test_options_never_show_their_key() -> None:
    assert KEY not in repr(ModelOptions(model="openai:m", api_key=KEY))


@pytest.mark.slow
def test_starting_without_a_model_imports_none_of_its_packages() -> None:
    code = (
        "import asyncio, sys; import memsvc.app; from memsvc.adapters.models import llm\n"
        "from memsvc.adapters.options import ModelOptions\n"
        "async def none():\n    async with llm(ModelOptions(), None) as made: assert made is None\n"
        "asyncio.run(none())\n"
        "print([name for name in ('pydantic_ai', 'openai', 'anthropic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
