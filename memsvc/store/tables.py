"""Primary keys of the tables of tenants.

The schema itself takes SQLAlchemy, which only a migrating process keeps in memory.
"""

from typing import Final

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "activity": ("tenant", "project", "book"),
    "allowances": ("tenant", "purpose", "day"),
    "blocks": ("tenant", "project", "stream", "start"),
    "books": ("tenant", "project", "book"),
    "calls": ("tenant", "called_at", "call"),
    "contradictions": ("tenant", "project", "book", "low", "high"),
    "edges": ("tenant", "project", "book", "low", "high"),
    "entries": ("tenant", "project", "book", "entry"),
    "facts": ("tenant", "project", "book", "entry"),
    "files": ("tenant", "project", "incarnation"),
    "fresh_terms": ("tenant", "project", "book", "entry"),
    "guards": ("tenant", "project", "session", "turn"),
    "insights": ("tenant", "project", "book", "entry"),
    "job_refs": ("tenant", "project", "name", "subject", "started"),
    "memories": ("tenant", "project", "book", "memory"),
    "memory_findings": ("tenant", "project", "number"),
    "memory_settings": ("tenant", "project"),
    "notion_tags": ("tenant", "project", "book", "tag", "notion"),
    "notions": ("tenant", "project", "book", "notion"),
    "outcomes": ("tenant", "project", "book", "notion", "number"),
    "outline_nodes": ("tenant", "project", "book", "node"),
    "outlines": ("tenant", "project", "book"),
    "postings": ("tenant", "project", "book", "term", "segment"),
    "projects": ("tenant", "project"),
    "purges": ("tenant", "project", "unit"),
    "rates": ("tenant", "bucket"),
    "recalls": ("tenant", "project", "session", "recalled_at", "recall"),
    "restores": ("tenant", "project", "archive"),
    "sessions": ("tenant", "project", "session"),
    "streams": ("tenant", "project", "incarnation", "first_revision"),
    "summaries": ("tenant", "project", "incarnation"),
    "usage": ("tenant",),
}
"""The columns of the primary key of every table that row level security binds, by name."""

WITHOUT_PROJECT: Final = frozenset({"allowances", "rates", "usage"})
"""Tables whose rows belong to a tenant, and to no project."""
