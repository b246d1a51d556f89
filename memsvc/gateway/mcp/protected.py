"""Metadata of a protected resource (RFC 9728), which names the issuer of accepted tokens."""

from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import Route

from memsvc.gateway.auth_challenge import Challenge
from memsvc.gateway.oauth import OAuthOptions, OAuthScopes

RESOURCE_NAME = "memsvc"
ROOT_PATH = "/.well-known/oauth-protected-resource"


def challenge(options: OAuthOptions) -> Challenge:
    """Return the credentials required of callers."""
    if not options.issuer:
        return Challenge()
    return Challenge(
        str(build_resource_metadata_url(AnyHttpUrl(options.resource))), OAuthScopes(options)
    )


def routes(options: OAuthOptions) -> list[Route]:
    """Return the metadata's routes, at the path of the resource and at the root.

    Some clients look only at the root. None without an issuer.
    """
    if not options.issuer:
        return []
    made = create_protected_resource_routes(
        AnyHttpUrl(options.resource),
        [AnyHttpUrl(options.issuer)],
        OAuthScopes(options).all,
        RESOURCE_NAME,
    )
    here = made[0]
    if here.path == ROOT_PATH:
        return made
    return [*made, Route(ROOT_PATH, here.endpoint, methods=["GET", "OPTIONS"])]
