"""The options of the knowledge of agents."""

from pydantic import Field

from memsvc.core.options import Count, DailyLimit, Limit, Options, Positive, Share


class KnowledgeOptions(Options):
    """Options of agent knowledge: how its blocks are consolidated, compared and recalled."""

    inbox_threshold: int = Field(
        10,
        ge=1,
        le=10_000,
        description="number of new blocks in the inbox at which background consolidation starts;"
        " consolidation compares, judges and connects the blocks",
    )
    top_k: int = Field(
        5, ge=1, le=50, description="default maximum number of blocks that a recall returns"
    )
    agent_name: str = Field(
        "elf",
        min_length=1,
        max_length=100,
        description="name of the agent, as shown in the text that a recall with frame=self (the"
        " agent's identity) returns",
    )
    duplicate_similarity_min: float = Field(
        0.95,
        gt=0,
        le=1,
        description="minimum similarity at which a new block counts as a duplicate of an older one;"
        " the new block is then archived, and its tags are added to the older block",
    )
    near_similarity_min: float = Field(
        0.90,
        gt=0,
        le=1,
        description="minimum similarity at which two blocks count as near-duplicates: both are"
        " kept, but a recall shows only one of them",
    )
    contradiction_min: float = Field(
        0.80,
        gt=0,
        le=1,
        description="minimum confidence (0 to 1) at which two blocks are recorded as contradicting"
        " each other",
    )
    alignment_min: Share = Field(
        0.70,
        description="minimum fit (0 to 1) of a new block with the agent's identity at which the"
        " fit becomes the block's initial confidence; with a lower fit, the initial confidence"
        " is 0.5",
    )
    prior_strength: float = Field(
        2.0,
        gt=0,
        le=1000,
        description="weight of a block's initial confidence; 2 means that it counts as much as two"
        " outcomes of weight 1",
    )
    edge_similarity_min: Share = Field(
        0.50,
        description="minimum similarity at which consolidation adds an edge (a link) between two"
        " blocks, if they also reach edge_score_min",
    )
    edge_score_min: Share = Field(
        0.45,
        description="minimum score (from similarity, tags, category and time) at which"
        " consolidation adds an edge (a link) between two blocks, if they also reach"
        " edge_similarity_min",
    )
    edges_max: int = Field(
        5,
        ge=0,
        le=100,
        description="maximum number of new edges that consolidation adds to a block",
    )
    edge_degree_max: Limit = Field(
        5,
        description="maximum number of edges of a block to which elfmem_connect adds an edge. If a"
        " block already has this many edges, the new edge replaces an edge that consolidation"
        " added; if the block has no such edge, the call fails",
    )
    session_idle_minutes: int = Field(
        30,
        ge=1,
        le=1440,
        description="number of minutes without a call after which a session ends; the time between"
        " sessions does not count as active hours",
    )
    curate_every_hours: Positive = Field(
        40.0,
        description="number of active hours (hours in sessions) between two curations; a curation"
        " archives faded blocks and removes weak edges",
    )
    archive_decayed: bool = Field(
        True,
        description="whether curation archives faded blocks; faded blocks with the strongest"
        " connections to other blocks are kept",
    )
    judge_with_model: bool = Field(
        True,
        description="whether the model configured in section `model` judges new blocks; if false,"
        " or without a model, rules judge them",
    )
    block_timeout_s: float = Field(
        10.0,
        gt=0,
        le=25,
        description="time limit for the model to judge one block; after a timeout, rules judge this"
        " block and all remaining blocks of the consolidation",
    )
    judgements_a_day: DailyLimit = Field(
        1000,
        description="maximum number of model calls per day and tenant for judging new blocks, after"
        " which rules judge them; 0: unlimited",
    )
    blocks_max: Count = Field(
        100_000,
        description="maximum number of blocks in a project, not counting archived ones; further"
        " blocks are refused",
    )
