"""The options of the knowledge of agents."""

from pydantic import Field

from memsvc.core.options import Options


class KnowledgeOptions(Options):
    """When blocks are consolidated, how alike they may be, and how much is recalled."""

    inbox_threshold: int = Field(
        10, ge=1, le=10_000, description="blocks in the inbox from which they are consolidated"
    )
    top_k: int = Field(
        5, ge=1, le=50, description="blocks that a recall shows when it does not say how many"
    )
    agent_name: str = Field(
        "elf", min_length=1, max_length=100, description="how the self frame calls the agent"
    )
    duplicate_similarity_min: float = Field(
        0.95,
        gt=0,
        le=1,
        description="likeness from which a new block says what an older one says, and is"
        " superseded",
    )
    near_similarity_min: float = Field(
        0.90,
        gt=0,
        le=1,
        description="likeness from which two blocks are kept, but not shown together",
    )
    contradiction_min: float = Field(
        0.80, gt=0, le=1, description="how sure a contradiction must be to be kept"
    )
    alignment_min: float = Field(
        0.70,
        ge=0,
        le=1,
        description="alignment with the identity from which it is the confidence; below it is 0.5",
    )
    prior_strength: float = Field(
        2.0, gt=0, le=1000, description="outcomes that the confidence of a new block counts as"
    )
    edge_similarity_min: float = Field(
        0.50, ge=0, le=1, description="likeness from which two blocks may have an edge"
    )
    edge_score_min: float = Field(
        0.45, ge=0, le=1, description="score from which two blocks have an edge"
    )
    edges_max: int = Field(
        5, ge=0, le=100, description="edges that a block gets when it is consolidated"
    )
    edge_degree_max: int = Field(
        5, ge=1, le=1000, description="edges of a block from which a new one displaces one"
    )
    session_idle_minutes: int = Field(
        30,
        ge=1,
        le=1440,
        description="minutes without a call after which a session is over and the clock stands"
        " still",
    )
    curate_every_hours: float = Field(40.0, gt=0, description="active hours between two curations")
    archive_decayed: bool = Field(
        True, description="archive blocks that have faded, but for those that others hang on"
    )
    judge_with_model: bool = Field(
        True, description="have the model of section `model` judge new blocks, if there is one"
    )
    block_timeout_s: float = Field(
        10.0,
        gt=0,
        le=25,
        description="how long the model may take for one block; then rules judge it, and the rest"
        " of the same consolidation",
    )
    judgements_a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="times that a model judges new blocks a day for a tenant; 0: no limit",
    )
    blocks_max: int = Field(100_000, ge=1, description="blocks of a project that are not archived")
