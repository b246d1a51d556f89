"""Commands `memsvc embeddings` and `memsvc reranker`: test models and set them."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Option

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embeddings import embedder
from memsvc.adapters.models import reranker
from memsvc.adapters.options import EMBEDDINGS_OFF, RERANK_OFF, EmbeddingOptions, RerankOptions
from memsvc.cli.options import settings_file, with_database
from memsvc.cli.settings_option import new_settings_option
from memsvc.cli.tool_client import Config, DataDir, command_group
from memsvc.core.errors import invalid
from memsvc.core.ports import Embedder
from memsvc.core.scope import Scope
from memsvc.package_files import default_config
from memsvc.settings import PREFIX, Settings, load, with_values
from memsvc.store import keys, projects, vectors
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding

EMBEDDINGS: Final = "embeddings"
RERANK: Final = "rerank"
BUNDLED: Final = "bundled"
INDEXES_MAX: Final = 100_000
COUNTED: Final = "memsvc_embedding_texts_total"
PROVIDERS: Final[Mapping[str, Mapping[str, str]]] = {
    "openai": {
        "base_url": "https://api.openai.com/v1",
        "model": "text-embedding-3-small",
        "api_key": "env:OPENAI_API_KEY",
    },
    "ollama": {
        "base_url": "http://127.0.0.1:11434/v1",
        "model": "nomic-embed-text",
        "document_prefix": "search_document: ",
        "question_prefix": "search_query: ",
    },
}
RERANK_DEFAULTS: Final = {
    "endpoint": "https://api.cohere.com/v2/rerank",
    "model": "rerank-v3.5",
    "api_key": "env:CO_API_KEY",
}
RESTART: Final = "Restart running servers: they read their settings only at startup."

Model = Annotated[str | None, Option(help="Name of the model to use at the endpoint.")]
KeyVariable = Annotated[
    str | None, Option("--key-env", help="Environment variable that contains the API key.")
]
KeyFile = Annotated[Path | None, Option(help="File that contains the API key.")]


def use_embeddings(
    source: Annotated[
        str,
        Argument(
            metavar="bundled|openai|ollama|URL|FOLDER", help="The model that computes the vectors."
        ),
    ],
    model: Model = None,
    dimensions: Annotated[
        int | None,
        Option(
            min=1,
            help="Number of dimensions of each vector; by default, the model decides.",
        ),
    ] = None,
    key_variable: KeyVariable = None,
    key_file: KeyFile = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Test an embedding model, write it to the settings, and compute vectors of the stored texts.

    Every stored text is sent to the endpoint of the model; nothing is sent without this command.
    The bundled encoder runs inside the server and sends nothing. If the command is interrupted, run
    it again to resume. The settings are only written if the model answers correctly."""
    options = new_settings_option(config, data_dir).embeddings
    chosen = {"api_key": "", "folder": "", "document_prefix": "", "question_prefix": ""}
    is_url = source.startswith(("http://", "https://"))
    if source == BUNDLED:
        chosen |= {"provider": BUNDLED}
    elif source in PROVIDERS or is_url:
        if is_url and model is None:
            raise invalid("--model is needed if the endpoint is given as a URL")
        defaults = PROVIDERS.get(
            source, {"base_url": source.rstrip("/").removesuffix("/embeddings")}
        )
        model = model or defaults["model"]
        chosen |= defaults if model == defaults.get("model") else _without_prefixes(defaults)
        chosen |= {"provider": "openai", "model": model}
    elif not Path(source).is_dir():
        raise invalid(
            f"{source} is not a known model: use bundled, openai, ollama, a URL or a folder"
        )
    else:
        chosen |= {"provider": "local", "folder": str(Path(source).absolute())}
    if options.api_key and _same(options, chosen, "provider", "base_url"):
        del chosen["api_key"]
    if same := _same(options, chosen, "provider", "model", "folder"):
        chosen = _without_prefixes(chosen)  # what else somebody set for this model stays
    chosen |= _key(key_variable, key_file)
    values = chosen | ({} if same and dimensions is None else {"dimensions": dimensions or 0})
    with _updated_settings(EMBEDDINGS, values, config, data_dir) as (settings, write):
        print(f"embeddings: {asyncio.run(_check_embedder(settings.embeddings))}")
        with_database(settings, lambda database: _embed(database, settings.embeddings, write))
    print(f"Search and recall now use both words and meaning. {RESTART}")


def _same(options: EmbeddingOptions, chosen: Mapping[str, Any], *names: str) -> bool:
    return all(
        chosen.get(name, value) == value for name in names for value in [getattr(options, name)]
    )


async def _check_embedder(options: EmbeddingOptions) -> str:
    async with embedder(options.model_copy(update={"retries": 0})) as client:
        assert client is not None
        (vector,) = await client.embed(["Does this work?"])
        return f"{client.model} returned a vector with {len(vector)} dimensions"


def _without_prefixes(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not name.endswith("_prefix")}


def embeddings_off(config: Config = None, data_dir: DataDir = None) -> None:
    """Turn search by meaning off. Stored vectors are kept."""
    with _updated_settings(EMBEDDINGS, {"provider": ""}, config, data_dir) as (_, write):
        write()
    print(f"embeddings: {EMBEDDINGS_OFF}")


def use_reranker(
    source: Annotated[
        str,
        Argument(
            metavar="cohere|URL",
            help="The endpoint of the model; it must offer Cohere's rerank API.",
        ),
    ],
    model: Model = None,
    key_variable: KeyVariable = None,
    key_file: KeyFile = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Test a model that reorders search results, and write it to the settings.

    The question of each file_search, and the passages found for it, are sent to the endpoint."""
    values = RERANK_DEFAULTS if source == "cohere" else {"endpoint": source, "api_key": ""}
    values = {**values, **({"model": model} if model else {}), **_key(key_variable, key_file)}
    with _updated_settings(RERANK, values, config, data_dir) as (settings, write):
        print(f"reranker: {asyncio.run(check_reranker(settings.rerank))}")
        write()
    print(
        "The reranker now reorders the results of file_search, with a time limit of"
        f" {settings.rerank.timeout_ms} ms. {RESTART}"
    )


async def check_reranker(options: RerankOptions) -> str:
    """Return a line about the reranker's answer, or RERANK_OFF without a reranker.

    Raises UNAVAILABLE if the reranker does not answer."""
    async with reranker(options) as client:
        if client is None:
            return RERANK_OFF
        scores = await client("Which animal barks?", ["A dog barks.", "A stone is silent."])
        return f"{options.model} returned the scores {', '.join(f'{one:.2f}' for one in scores)}"


def reranker_off(config: Config = None, data_dir: DataDir = None) -> None:
    """Turn the reordering by a model off."""
    with _updated_settings(RERANK, {"endpoint": ""}, config, data_dir) as (_, write):
        write()
    print(f"reranker: {RERANK_OFF}")


def _key(variable: str | None, file: Path | None) -> dict[str, str]:
    if variable and file:
        raise invalid("--key-env and --key-file cannot be used together")
    if file is not None:
        return {"api_key": f"file:{file.absolute()}"}
    return {"api_key": f"env:{variable}"} if variable else {}


@contextmanager
def _updated_settings(
    section: str, values: Mapping[str, Any], config: Path | None, data_dir: Path | None
) -> Iterator[tuple[Settings, Callable[[], None]]]:
    """Yield the settings with these values, and a function that writes them to the user's file.

    Raises INVALID_ARGUMENT where the environment sets one of them, as that counts more.
    """
    settings = new_settings_option(config, data_dir)
    before = getattr(settings, section)
    changes = {name: value for name, value in values.items() if getattr(before, name) != value}
    for name in changes:
        if (variable := f"{PREFIX}{section}__{name}".upper()) in os.environ:
            raise invalid(
                f"the environment variable {variable} overrides the configuration file",
                recovery="unset this variable, then run the command again",
            )
    file = settings_file(config, data_dir).absolute()
    if file.is_symlink():
        file = file.resolve()
    if not changes:
        yield settings, lambda: print("nothing to change: the settings already have these values")
        return
    new = file.with_name(f"{file.name}.new")
    _write_new(file, new, section, changes)
    try:

        def write() -> None:
            new.replace(file)
            print(
                f"these settings were written to {file}: {section}.{{{', '.join(sorted(changes))}}}"
            )

        files = [new] if config else [default_config(), new]
        yield load(files[0], os.environ, *files[1:], data_dir=data_dir), write
    finally:
        new.unlink(missing_ok=True)


def _write_new(file: Path, new: Path, section: str, changes: dict[str, Any]) -> None:
    try:
        text = file.read_bytes().decode() if file.exists() else ""
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.touch(mode=0o600)
        new.write_bytes(with_values(text, section, changes).encode())
        if file.exists():
            shutil.copymode(file, new)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise invalid(f"cannot write {new}: {error.strerror}") from error


async def _embed(database: Database, options: EmbeddingOptions, write: Callable[[], None]) -> None:
    """Write the settings, and embed what lacks vectors of this model."""
    write()
    async with embedder(options) as client:
        assert client is not None
        print(f"embedded {await _embed_all(database, client):,} texts")


async def _embed_all(database: Database, client: Embedder) -> int:
    scopes = [
        Scope(tenant, project)
        for tenant in await keys.list_tenants(database)
        for project in await _projects(database, tenant)
    ]
    progress = _Progress()
    for scope in scopes:
        async with database.begin_read(scope) as tx:
            found = (await vectors.progress(tx, client.model)).values()
            progress.total += sum(max(0, one.entries - one.vectors) for one in found)
    embedding = Embedding(database, client, SystemClock(), progress)
    for scope in scopes:
        async with database.begin_read(scope) as tx:
            indexes = await vectors.list_incomplete(tx, client.model, limit=INDEXES_MAX)
        for index_id in indexes:
            await embedding.embed(scope, str(index_id))
    return progress.done


async def _projects(database: Database, tenant: bytes) -> list[str]:
    found = [""]
    async with database.begin_tenant(Scope(tenant, "*"), read_only=True) as tx:
        while (project := await projects.next_project(tx, found[-1])) is not None:
            found.append(project)
    return found[1:]


class _Progress:
    """The meter of an embedding: prints how far it is."""

    def __init__(self) -> None:
        self.total = 0
        self.done = 0

    def add(self, name: str, amount: float = 1.0, **_: str) -> None:
        """Count embedded texts and print them to stderr."""
        if name == COUNTED:
            self.done += int(amount)
            print(f"embedded {self.done:,} of {self.total:,} texts", file=sys.stderr, flush=True)


embeddings = command_group({"use": use_embeddings, "off": embeddings_off})
rerank = command_group({"use": use_reranker, "off": reranker_off})
