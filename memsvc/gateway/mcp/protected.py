"""Where clients learn which issuer's tokens are taken: the metadata of a protected resource (RFC 9728)."""

from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import Route

from memsvc.gateway.challenges import Challenge
from memsvc.gateway.oauth import OAuthOptions, Scopes

RESOURCE_NAME = "memsvc"
ROOT_PATH = "/.well-known/oauth-protected-resource"


def challenge(options: OAuthOptions) -> Challenge:
    """What callers are asked for."""
    if not options.issuer:
        return Challenge()
    return Challenge(str(build_resource_metadata_url(AnyHttpUrl(options.resource))), Scopes(options))


def routes(options: OAuthOptions) -> list[Route]:
    """The metadata, at the path that belongs to the resource and at the root, for clients that look there alone; none
    without an issuer."""
    if not options.issuer:
        return []
    made = create_protected_resource_routes(
        AnyHttpUrl(options.resource), [AnyHttpUrl(options.issuer)], Scopes(options).all, RESOURCE_NAME
    )
    here = made[0]
    if here.path == ROOT_PATH:
        return made
    return [*made, Route(ROOT_PATH, here.endpoint, methods=["GET", "OPTIONS"])]
