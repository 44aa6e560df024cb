"""The command openbell-mcp."""

import argparse
import asyncio
import os
import sys

from mcp.server.stdio import stdio_server

from openbell.async_client import AsyncClient
from openbell.errors import OpenbellError
from openbell_mcp.server import REQUEST_SECONDS, build_server


def main() -> int:
    parser = argparse.ArgumentParser(prog="openbell-mcp", description=__doc__)
    parser.add_argument("--profile", help="a profile of `openbell profiles`; else the environment, or the default one")
    given = parser.parse_args()
    try:
        asyncio.run(_serve_stdio(given.profile))
    except (OpenbellError, ValueError) as error:
        sys.stderr.write(f"openbell-mcp: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve_stdio(profile: str | None) -> None:
    from openbell.cli.profiles import apply_profile

    apply_profile(profile or os.environ.get("OPENBELL_PROFILE"))
    async with AsyncClient(timeout=REQUEST_SECONDS) as client, stdio_server() as (read, write):
        server = build_server(lambda _: client)
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    sys.exit(main())
