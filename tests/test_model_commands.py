"""`memsvc embeddings` and `memsvc reranker`: a model is tried, set and used by one command."""

import asyncio
import stat
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import SettingsError
from memsvc.serve import ready_message
from memsvc.settings import Settings, off_notices, with_values
from tests.adapters.test_local_embeddings import needs_runtime
from tests.adapters.test_local_embeddings import write as write_model
from tests.e2e.process import on, typed
from tests.endpoints import DIMENSIONS, provider
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

OWN = """\
# mine
log_level: warning   # quiet
embeddings:
    batch_size: 7  # small
    # what follows is old
    model: 'old'
rerank: {timeout_ms: 900}
"""


class Folder:
    """Commands on one database and data folder, with a key of its own in the environment."""

    def __init__(self, urls: DatabaseUrls, path: Path) -> None:
        self.path = path
        self.file = path / "memsvc.yaml"
        self._variables = on(urls) | {
            "MEMSVC_DATA_DIR": str(path),
            "MEMSVC_API_KEY": "key-of-the-folder",
            "A_KEY": "sesame",
        }

    async def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(typed, *arguments, **self._variables | variables)

    async def done(self, *arguments: str) -> str:
        ended = await self.run(*arguments)
        assert ended.returncode == 0, ended.stderr
        assert "sesame" not in ended.stdout + ended.stderr
        return ended.stdout

    async def refused(self, *arguments: str, **variables: str) -> str:
        before = self.file.read_bytes() if self.file.exists() else None
        ended = await self.run(*arguments, **variables)
        assert ended.returncode != 0, ended.stdout
        assert "Traceback" not in ended.stderr
        assert (self.file.read_bytes() if self.file.exists() else None) == before
        assert not list(self.path.glob("*.new"))
        return ended.stderr


@pytest.fixture
def folder(database_urls: DatabaseUrls, tmp_path: Path) -> Folder:
    return Folder(database_urls, tmp_path)


async def vector_count(admin: asyncpg.Connection) -> int:
    count: int = await admin.fetchval("SELECT count(*) FROM embeddings")
    return count


async def test_one_command_tries_sets_and_embeds_and_a_second_one_changes_nothing(
    folder: Folder, admin: asyncpg.Connection
) -> None:
    for text in ("The ferry leaves Oshima at nine.", "Ada prefers trains.", "Tests run on Linux."):
        await folder.done("remember", text)
    async with provider() as endpoint:
        use = ("embeddings", "use", f"{endpoint.url}/v1", "--model", "m", "--key-env", "A_KEY")
        told = await folder.done(*use)
        assert f"openai/m returned a vector with {DIMENSIONS} dimensions" in told
        assert "embedded 3 texts" in told, told
        assert set(endpoint.keys) == {"Bearer sesame"}
        assert sum("Oshima" in text for text in endpoint.texts) == 1
        assert await vector_count(admin) == 3
        written = folder.file.read_bytes()
        assert b"sesame" not in written
        assert b"env:A_KEY" in written
        assert stat.S_IMODE(folder.file.stat().st_mode) == 0o600
        endpoint.calls.clear()
        again = await folder.done(*use)
        assert "nothing to change: the settings already have these values" in again
        assert "embedded 0 texts" in again
        assert folder.file.read_bytes() == written
        assert not any("Oshima" in text for text in endpoint.texts)
        # without a key named anew, that of the same endpoint stays
        await folder.done(*use[:5])
        assert folder.file.read_bytes() == written
        # and what is written from then on uses it
        endpoint.calls.clear()
        await folder.done("recall", "when does a boat go")
        assert endpoint.texts == ["when does a boat go"]
        assert "ok    embeddings: openai/m returned" in (await folder.run("doctor")).stdout
    assert "memsvc embeddings use" in await folder.done("embeddings", "off")
    assert "nothing to change: the settings already have these values" in await folder.done(
        "embeddings", "off"
    )
    assert await vector_count(admin) == 3
    assert "search uses keywords only" in (await folder.run("doctor")).stdout


async def test_a_model_that_does_not_answer_as_it_should_changes_nothing(folder: Folder) -> None:
    async with provider() as endpoint:
        url = f"{endpoint.url}/v1"
        endpoint.always = "refuses the key"
        assert "embeddings.api_key" in await folder.refused(
            "embeddings", "use", url, "--model", "m"
        )
        endpoint.always = "other dimension"
        wrong = await folder.refused(
            "embeddings", "use", url, "--model", "m", "--dimensions", str(DIMENSIONS)
        )
        assert f"do not have {DIMENSIONS} dimensions" in wrong
        endpoint.always = "fine"
        endpoint.calls.clear()
        assert "--model" in await folder.refused("embeddings", "use", url)
        for bad in ("ftp://somewhere", "nowhere", "http://"):
            assert await folder.refused("embeddings", "use", bad, "--model", "m")
        unset = await folder.refused(
            "embeddings", "use", url, "--model", "m", "--key-env", "NO_SUCH_KEY"
        )
        assert "env:NO_SUCH_KEY" in unset
        louder = await folder.refused(
            *("embeddings", "use", url, "--model", "m"), MEMSVC_EMBEDDINGS__MODEL="other"
        )
        assert "MEMSVC_EMBEDDINGS__MODEL" in louder
        assert endpoint.calls == []
    away = ("--config", str(folder.path / "away.yaml"))
    assert "cannot read" in await folder.refused("embeddings", "off", *away)
    (folder.path / "a-file").touch()
    nowhere = ("--data-dir", str(folder.path / "a-file"))
    use = ("embeddings", "use", url, "--model", "m")
    assert "cannot write" in await folder.refused(*use, *nowhere)
    assert "cannot be reached" in await folder.refused("embeddings", "use", url, "--model", "m")
    assert "OPENAI_API_KEY" in await folder.refused(
        "embeddings", "use", "openai", OPENAI_API_KEY=""
    )
    assert "model.onnx" in await folder.refused("embeddings", "use", str(folder.path))


async def test_a_file_of_ones_own_keeps_all_else_as_it_was(folder: Folder) -> None:
    own = folder.path / "own.yaml"
    own.write_text(OWN)
    own.chmod(0o640)
    key = folder.path / "key"
    key.write_text("sesame\n")
    async with provider() as endpoint:
        use = ("embeddings", "use", f"{endpoint.url}/v1", "--model", "new", "--key-file", str(key))
        await folder.done(*use, "--config", str(own))
        assert set(endpoint.keys) == {"Bearer sesame"}
        rerank = ("reranker", "use", f"{endpoint.url}/rerank", "--key-env", "A_KEY")
        told = await folder.done(*rerank, "--config", str(own))
        assert "returned the scores" in told
        assert "documents" in endpoint.calls[-1].body
        assert endpoint.keys[-1] == "Bearer sesame"
        assert (
            "reranker: rerank-v3.5 returned"
            in (await folder.run("doctor", "--config", str(own))).stdout
        )
        endpoint.always = "garbage"
        refused = await folder.run(*rerank, "--model", "bad", "--config", str(own))
        assert refused.returncode
    for line in ("# mine", "log_level: warning   # quiet", "    batch_size: 7  # small"):
        assert line in own.read_text().splitlines()
    assert "old'" not in own.read_text()
    assert "bad" not in own.read_text()
    assert "timeout_ms: 900}" in own.read_text()
    assert stat.S_IMODE(own.stat().st_mode) == 0o640
    assert not folder.file.exists()
    await folder.done("embeddings", "off", "--config", str(own))
    assert "memsvc reranker use" in await folder.done("reranker", "off", "--config", str(own))


@needs_runtime
async def test_a_folder_is_used_from_wherever_the_command_runs_and_can_follow_an_endpoint(
    folder: Folder, admin: asyncpg.Connection
) -> None:
    await folder.done("remember", "A train to Vienna.")
    async with provider() as endpoint:
        await folder.done("embeddings", "use", f"{endpoint.url}/v1", "--model", "m")
    model = write_model(folder.path / "tiny")
    wrong = await folder.refused("embeddings", "use", str(model), "--dimensions", "4")
    assert "3 dimensions, but embeddings.dimensions is 4" in wrong
    told = await folder.done("embeddings", "use", str(model))
    assert "returned a vector with 3 dimensions" in told
    assert "embedded 1 texts" in told
    assert await vector_count(admin) == 1  # those of the endpoint went
    assert str(model.absolute()) in folder.file.read_text()


async def test_ollama_is_asked_with_the_prefixes_of_its_model(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memsvc.cli import model_commands  # noqa: PLC0415 - for the one address that is patched

    async with provider() as endpoint:
        near = {**model_commands.PROVIDERS["ollama"], "base_url": f"{endpoint.url}/v1"}
        monkeypatch.setattr(model_commands, "PROVIDERS", {"ollama": near})
        await folder.done("embeddings", "use", "ollama")
        assert endpoint.texts[0].startswith("search_document: ")
        await folder.done("embeddings", "use", "ollama", "--model", "all-minilm")
        assert not endpoint.texts[-1].startswith("search_document: ")


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("", {"provider": "local", "dimensions": 3}),
        ("embeddings:\nport: 1\n", {"provider": "local", "dimensions": 3}),
        ("embeddings: # none\nport: 1", {"provider": "local", "dimensions": 3}),
        ("embeddings: {}\n", {"provider": "local", "dimensions": 3}),
        ("embeddings: {model: a}\n", {"model": "a", "provider": "local", "dimensions": 3}),
        ("embeddings:\n  provider:\n", {"provider": "local", "dimensions": 3}),
        ("port: 1 # last", {"provider": "local", "dimensions": 3}),
        (
            "embeddings:\r\n  model: a\r\nport: 1\r\n",
            {"model": "a", "provider": "local", "dimensions": 3},
        ),
    ],
)
def test_values_are_put_into_any_form_of_a_section(text: str, section: dict[str, Any]) -> None:
    import yaml  # noqa: PLC0415 - reads what was written

    written = with_values(text, "embeddings", {"provider": "local", "dimensions": 3})
    assert yaml.safe_load(written)["embeddings"] == section
    assert all(comment in written for comment in ("# none", "# last") if comment in text)
    assert with_values(written, "embeddings", {"dimensions": 3}) == written


def test_a_file_with_anchors_is_left_to_its_owner() -> None:
    shared = "rerank: &one {model: a}\nembeddings: *one\n"
    with pytest.raises(SettingsError) as refused:
        with_values(shared, "embeddings", {"model": "b"})
    assert "by hand" in refused.value.errors[0]


def test_what_is_off_is_told_with_how_to_turn_it_on() -> None:
    off = Settings.model_validate({"embeddings": {"provider": ""}})
    embeddings, reranker = off_notices(off)
    assert "memsvc embeddings use bundled" in embeddings
    assert "memsvc reranker use" in reranker
    assert off_notices(Settings()) == (reranker,)


def test_a_server_says_at_its_start_what_is_off() -> None:
    greeting = ready_message(
        *("127.0.0.1", 8080, "k", "About the key."),
        console=True,
        is_open=False,
        notices=off_notices(Settings.model_validate({"embeddings": {"provider": ""}})),
    )
    lines = greeting.splitlines()
    assert [line.split(":")[0] for line in lines[3:6]] == ["Web console", "Embeddings", "Reranker"]
