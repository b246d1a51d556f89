"""The options of the knowledge of agents."""

from pydantic import Field

from memsvc.core.options import Options


class KnowledgeOptions(Options):
    """Options of consolidation, similarity and recall of knowledge."""

    inbox_threshold: int = Field(
        10,
        ge=1,
        le=10_000,
        description="number of blocks in the inbox at which they are consolidated",
    )
    top_k: int = Field(5, ge=1, le=50, description="default number of blocks in a recall")
    agent_name: str = Field(
        "elf", min_length=1, max_length=100, description="name of the agent in the self frame"
    )
    duplicate_similarity_min: float = Field(
        0.95,
        gt=0,
        le=1,
        description="similarity at which a new block counts as a duplicate of an older one and"
        " supersedes it",
    )
    near_similarity_min: float = Field(
        0.90,
        gt=0,
        le=1,
        description="similarity at which two blocks are kept, but not shown together",
    )
    contradiction_min: float = Field(
        0.80, gt=0, le=1, description="minimum confidence for recording a contradiction"
    )
    alignment_min: float = Field(
        0.70,
        ge=0,
        le=1,
        description="alignment with the identity from which on it is used as the initial"
        " confidence; below it, the initial confidence is 0.5",
    )
    prior_strength: float = Field(
        2.0,
        gt=0,
        le=1000,
        description="weight of the initial confidence, as an equivalent number of outcomes",
    )
    edge_similarity_min: float = Field(
        0.50, ge=0, le=1, description="minimum similarity for an edge between two blocks"
    )
    edge_score_min: float = Field(
        0.45, ge=0, le=1, description="minimum score for an edge between two blocks"
    )
    edges_max: int = Field(
        5,
        ge=0,
        le=100,
        description="maximum number of edges created for a block when it is consolidated",
    )
    edge_degree_max: int = Field(
        5,
        ge=1,
        le=1000,
        description="maximum number of edges of a block; beyond it, a new edge displaces an older"
        " one",
    )
    session_idle_minutes: int = Field(
        30,
        ge=1,
        le=1440,
        description="minutes without a call after which a session ends and the clock of active"
        " hours stops",
    )
    curate_every_hours: float = Field(40.0, gt=0, description="active hours between two curations")
    archive_decayed: bool = Field(
        True, description="archive faded blocks, except those that other blocks depend on"
    )
    judge_with_model: bool = Field(
        True, description="let the model of section `model`, if there is one, judge new blocks"
    )
    block_timeout_s: float = Field(
        10.0,
        gt=0,
        le=25,
        description="time limit of the model for one block; after a timeout, rules judge it and the"
        " rest of that consolidation",
    )
    judgements_a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="model calls per day and tenant for judging new blocks; 0: unlimited",
    )
    blocks_max: int = Field(
        100_000, ge=1, description="maximum number of blocks in a project, without archived ones"
    )
