"""A model in a folder makes vectors without any host, and one that cannot be used says so at the
start."""

import asyncio
import importlib.util
import math
import threading
from pathlib import Path
from typing import Any

import pytest

from memsvc.adapters.embeddings import LocalEmbedder, embedder
from memsvc.adapters.options import EmbeddingOptions
from memsvc.core.errors import Code, MemsvcError

pytestmark = pytest.mark.anyio
WORDS = ("[PAD]", "[UNK]", "train", "vienna", "marzipan", "walrus")
# by word: what the tiny model "means" by it; padding would be noticed in any mean
MEANINGS = [
    [100.0, 100.0, 100.0],
    [0.1, 0.1, 0.1],
    [1.0, 0.0, 0.0],
    [0.8, 0.6, 0.0],
    [0.0, 0.0, 2.0],
    [0.0, 3.0, 0.0],
]
needs_runtime = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime", "tokenizers")),
    reason="onnx, onnxruntime and tokenizers are not installed",
)


def write(
    folder: Path, *, name: str = "model.onnx", output: str = "last_hidden_state", inputs: int = 2
) -> Path:
    """A model that looks each token up in a table, with its tokenizer; `sentence_embedding` takes
    the first token."""
    import numpy  # noqa: PLC0415
    import onnx  # noqa: PLC0415
    import tokenizers  # noqa: PLC0415
    from onnx import TensorProto, helper  # noqa: PLC0415

    taken = ["input_ids", "attention_mask", "token_type_ids", "pixel_values"][:inputs]
    table = onnx.numpy_helper.from_array(numpy.array(MEANINGS, dtype="float32"), "table")
    first = onnx.numpy_helper.from_array(numpy.array(0, dtype="int64"), "first")
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    shape = ["batch", "tokens", 3]
    if output == "sentence_embedding":
        nodes.append(helper.make_node("Gather", ["last_hidden_state", "first"], [output], axis=1))
        shape = ["batch", 3]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(one, TensorProto.INT64, ["batch", "tokens"])
            for one in taken
        ],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [table, first],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(
        length=64, pad_id=0, pad_token="[PAD]"
    )  # as sentence-transformers saves it
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def options(folder: Path, **given: Any) -> EmbeddingOptions:
    return EmbeddingOptions(provider="local", folder=str(folder), **given)


@needs_runtime
@pytest.mark.parametrize(
    "name", ["model.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_O2.onnx"]
)
async def test_a_vector_is_the_mean_of_the_tokens_without_padding(
    tmp_path: Path, name: str
) -> None:
    model = await LocalEmbedder.open(options(write(tmp_path, name=name)))
    both, alone, long = await model.embed(["Train Vienna", "marzipan", "walrus " * 5000])
    length = math.hypot(1.8, 0.6)
    assert both == pytest.approx([1.8 / length, 0.6 / length, 0.0], abs=1e-6)
    assert alone == pytest.approx([0.0, 0.0, 1.0])
    assert long == pytest.approx([0.0, 1.0, 0.0])
    assert await model.embed_question("train vienna") == pytest.approx(both, abs=1e-6)
    assert await model.embed([]) == []


@needs_runtime
@pytest.mark.parametrize("inputs", [1, 2, 3])
async def test_a_model_that_pools_by_itself_is_left_to_it(tmp_path: Path, inputs: int) -> None:
    folder = write(tmp_path, output="sentence_embedding", inputs=inputs)
    model = await LocalEmbedder.open(options(folder))
    assert await model.embed(["marzipan train", "train"]) == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


@needs_runtime
async def test_prefixes_and_batches_are_as_the_options_say(tmp_path: Path) -> None:
    chosen = options(
        write(tmp_path), batch_size=2, document_prefix="walrus ", question_prefix="marzipan "
    )
    async with embedder(chosen) as model:
        assert model is not None
        vectors = await model.embed(["train"] * 5)
        question = await model.embed_question("train")
    assert len(vectors) == 5
    assert vectors[4][1] > 0.9
    assert question[2] > 0.8


@needs_runtime
async def test_the_name_tells_models_apart_by_their_content(tmp_path: Path) -> None:
    one = await LocalEmbedder.open(options(write(tmp_path / "m")))
    same = await LocalEmbedder.open(options(tmp_path / "m"))
    other = await LocalEmbedder.open(
        options(write(tmp_path / "x" / "m", output="sentence_embedding"))
    )
    assert one.model == same.model != other.model
    assert one.model.startswith("local/m@")


@needs_runtime
async def test_the_event_loop_stays_free_and_a_question_does_not_wait_for_documents(
    tmp_path: Path,
) -> None:
    model = await LocalEmbedder.open(options(write(tmp_path)))
    gate, run = threading.Event(), model._run

    def held(texts: list[str]) -> list[list[float]]:
        if texts[0] == "walrus":
            gate.wait(5)
        return run(texts)

    model._run = held
    documents = asyncio.create_task(model.embed(["walrus"]))
    assert len(await model.embed_question("train")) == 3
    assert not documents.done()
    gate.set()
    assert len(await documents) == 1


@needs_runtime
async def test_a_model_that_is_too_slow_for_a_question_is_unavailable(tmp_path: Path) -> None:
    model = await LocalEmbedder.open(options(write(tmp_path), question_timeout_ms=20))
    gate = threading.Event()
    model._run = lambda _: gate.wait(5)
    with pytest.raises(MemsvcError) as refused:
        await model.embed_question("train")
    gate.set()
    assert refused.value.code is Code.UNAVAILABLE


async def unusable(chosen: EmbeddingOptions) -> MemsvcError:
    with pytest.raises(MemsvcError) as refused:
        await LocalEmbedder.open(chosen)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.recovery
    return refused.value


async def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    assert "model.onnx" in (await unusable(options(tmp_path))).message
    (tmp_path / "model.onnx").touch()
    assert "tokenizer.json" in (await unusable(options(tmp_path))).message


async def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("memsvc.adapters.embeddings.importlib.import_module", absent)
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).touch()
    assert (await unusable(options(tmp_path))).recovery == "install memsvc[local]"


@needs_runtime
async def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_text("nonsense")
    assert "cannot read" in (await unusable(options(tmp_path))).message


@needs_runtime
async def test_a_model_of_another_kind_or_length_is_refused_at_the_start(tmp_path: Path) -> None:
    assert "pixel_values" in (await unusable(options(write(tmp_path / "a", inputs=4)))).message
    assert (
        "3 dimensions, but embeddings.dimensions is 4"
        in (await unusable(options(write(tmp_path / "b"), dimensions=4))).message
    )
    assert (await LocalEmbedder.open(options(tmp_path / "b", dimensions=3))).model.endswith("/3")
