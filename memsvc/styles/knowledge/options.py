"""The options of the knowledge of agents."""

from pydantic import Field

from memsvc.core.options import Options


class KnowledgeOptions(Options):
    """Options of agent knowledge: how its blocks are consolidated, compared and recalled."""

    inbox_threshold: int = Field(
        10,
        ge=1,
        le=10_000,
        description="number of new blocks waiting in the inbox at which they are consolidated"
        " (compared, judged and connected) in the background",
    )
    top_k: int = Field(
        5, ge=1, le=50, description="default maximum number of blocks that a recall returns"
    )
    agent_name: str = Field(
        "elf",
        min_length=1,
        max_length=100,
        description="name of the agent in the text that a recall of its identity (frame=self)"
        " returns",
    )
    duplicate_similarity_min: float = Field(
        0.95,
        gt=0,
        le=1,
        description="minimum similarity at which a new block counts as a duplicate of an older one;"
        " the new block is then archived, and the older one gets its tags",
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
    alignment_min: float = Field(
        0.70,
        ge=0,
        le=1,
        description="how well a new block must fit the agent's identity (0 to 1) for that fit to"
        " become its initial confidence; below this, the initial confidence is 0.5",
    )
    prior_strength: float = Field(
        2.0,
        gt=0,
        le=1000,
        description="number of outcomes that weigh as much as a block's initial confidence",
    )
    edge_similarity_min: float = Field(
        0.50,
        ge=0,
        le=1,
        description="minimum similarity at which consolidation adds an edge (a link) between two"
        " blocks, if they also reach edge_score_min",
    )
    edge_score_min: float = Field(
        0.45,
        ge=0,
        le=1,
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
    edge_degree_max: int = Field(
        5,
        ge=1,
        le=1000,
        description="maximum number of edges of a block when elfmem_connect adds one; if a block"
        " already has this many, the new edge displaces one that was added"
        " automatically, and if there is none, the call fails",
    )
    session_idle_minutes: int = Field(
        30,
        ge=1,
        le=1440,
        description="number of minutes without a call after which a session ends and the clock of"
        " active hours stops",
    )
    curate_every_hours: float = Field(
        40.0,
        gt=0,
        description="number of hours in sessions (idle time is not counted) between two"
        " curations, which archive faded blocks and remove weak edges",
    )
    archive_decayed: bool = Field(
        True,
        description="whether curation archives faded blocks; those with the strongest connections"
        " to other blocks are kept",
    )
    judge_with_model: bool = Field(
        True,
        description="whether the model of section `model`, if there is one, judges new blocks",
    )
    block_timeout_s: float = Field(
        10.0,
        gt=0,
        le=25,
        description="time limit for the model to judge one block; after a timeout, rules judge this"
        " block and all remaining blocks of the consolidation",
    )
    judgements_a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="maximum number of model calls per day and tenant for judging new blocks, after"
        " which rules judge them; 0: unlimited",
    )
    blocks_max: int = Field(
        100_000,
        ge=1,
        description="maximum number of blocks in a project, not counting archived ones; further"
        " blocks are refused",
    )
