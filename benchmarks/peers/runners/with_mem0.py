"""mem0 as a library: messages as they are (infer off), the vector store that it has by default, on
disk."""

from typing import Any

from loop import serve
from mem0 import Memory


class Mem0:
    """One memory in a folder."""

    def __init__(self, folder: str, embeddings_url: str, dimensions: int) -> None:
        endpoint = {"api_key": "none", "openai_base_url": embeddings_url}
        store = {"collection_name": "peer", "path": f"{folder}/qdrant", "on_disk": True}
        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": store | {"embedding_model_dims": dimensions},
                },
                "embedder": {"provider": "openai", "config": endpoint | {"model": "local"}},
                "llm": {"provider": "openai", "config": endpoint | {"model": "none"}},
                "history_db_path": f"{folder}/history.db",
            }
        )

    def add(self, user: str, messages: list[dict[str, str]]) -> None:
        """Store each message with its id and time as metadata, which an add has one of."""
        for one in messages:
            said = [{"role": one["role"], "content": one["text"], "name": one["speaker"]}]
            self._memory.add(
                said, user_id=user, metadata={"said": one["id"], "at": one["at"]}, infer=False
            )

    def settle(self) -> None:
        """Everything is found at once."""

    def search(self, user: str, text: str, limit: int, way: str) -> list[dict[str, str]]:
        """The ids, best first, with the default threshold; there is one way to ask."""
        found: list[dict[str, Any]] = self._memory.search(
            text, top_k=limit, filters={"user_id": user}
        )["results"]
        return [{"id": one["metadata"]["said"]} for one in found]

    def close(self) -> None:
        """Let go of the folder."""
        self._memory.close()


if __name__ == "__main__":
    serve(Mem0)
