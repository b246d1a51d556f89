"""Isolation of each tenant's rows by row security: enabled, forced, and by one known policy."""

from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.tables import TABLES

TENANT_IS_CURRENT: Final = "tenant = NULLIF(current_setting('memsvc.tenant', true), '')::bytea"
# A setting that is absent reads as NULL and one that was local to an earlier transaction as '':
# both match no row.
_AS_STORED: Final = (
    "(tenant = (NULLIF(current_setting(''memsvc.tenant''::text, true), ''''::text))::bytea)"
)

OPEN_TABLES: Final = f"""
    SELECT t.name FROM unnest('{{{",".join(TABLES)}}}'::text[]) AS t (name)
    JOIN pg_class AS c ON c.oid = to_regclass(t.name) LEFT JOIN pg_policy AS p ON p.polrelid = c.oid
    GROUP BY t.name, c.oid, c.relrowsecurity, c.relforcerowsecurity
    HAVING NOT (c.relrowsecurity AND c.relforcerowsecurity AND count(p.oid) = 1
        AND coalesce(bool_and(
        p.polpermissive AND p.polcmd = '*' AND p.polroles = '{{0}}'
        AND coalesce(pg_get_expr(p.polqual, p.polrelid), '') = '{_AS_STORED}'
        AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '') = '{_AS_STORED}'), false))
    ORDER BY 1
"""
"""Tables, as statements find them, that show or take rows of another tenant; an absent one shows
none."""


async def check_isolation(pool: Any) -> None:
    """Raise PERMISSION_DENIED where row security is off or changed on any table of tenants."""
    tables = [row["name"] for row in await pool.fetch(OPEN_TABLES)]
    if tables:
        raise MemsvcError(
            Code.PERMISSION_DENIED,
            f"row level security is off or was changed on {', '.join(tables)}",
            recovery="run `memsvc migrate` with database.admin_url set, which puts it back; find"
            " out why it was gone",
        )
