"""Lets an AI agent trade through Openbell, over the Model Context Protocol."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from openbell.errors import OpenbellError

WRONG_SETTINGS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="openbell-mcp", description=__doc__)
    parser.add_argument("--profile", help="of `openbell profiles`; otherwise the environment, or the default profile")
    commands = parser.add_subparsers(dest="command", metavar="http")
    http = commands.add_parser("http", help="serve streamable HTTP with OAuth, instead of standard input and output")
    http.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    http.add_argument("--port", type=int, default=8460, help="the port to listen on (8460)")
    given = parser.parse_args(arguments)
    try:
        asyncio.run(_serve_http(given.host, given.port) if given.command else _serve_stdio(given.profile))
    except (OpenbellError, OSError, ValueError) as error:
        sys.stderr.write(f"openbell-mcp: {error}\n")
        return WRONG_SETTINGS
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve_stdio(profile: str | None) -> None:
    from mcp.server.stdio import stdio_server

    from openbell.async_client import AsyncClient
    from openbell.cli.profiles import apply_profile
    from openbell_mcp.server import REQUEST_SECONDS, build_server

    apply_profile(profile or os.environ.get("OPENBELL_PROFILE"))
    async with AsyncClient(timeout=REQUEST_SECONDS) as client, stdio_server() as (read, write):
        server = build_server(lambda _: client)
        await server.run(read, write, server.create_initialization_options())


async def _serve_http(host: str, port: int) -> None:
    from openbell_mcp.http import HttpSettings, serve

    # To standard error; refused tokens are information.
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("openbell_mcp").setLevel(logging.INFO)
    await serve(HttpSettings.from_environment(os.environ), host, port)


if __name__ == "__main__":
    sys.exit(main())
