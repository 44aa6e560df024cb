"""Commands about the database schema."""

from typing import Annotated

import typer


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Only check whether the schema is current; exit 1 if not.")
    ] = False,
    to: Annotated[str, typer.Option(help="Stop after this revision.")] = "head",
    logins: Annotated[
        str,
        typer.Option(
            metavar="PREFIX",
            help="Also create the logins PREFIX_api, PREFIX_stream, PREFIX_relay, PREFIX_executor, PREFIX_front,"
            " PREFIX_back, PREFIX_console and PREFIX_operator, without passwords, each with the roles that it needs.",
        ),
    ] = "",
    sql: Annotated[bool, typer.Option("--sql", help="Only print the statements, for an empty database.")] = False,
) -> None:
    """Migrate the database at OPENBELL_DATABASE_URL to the newest schema."""
    from openbell_server.adapters.postgres import migrate as schema

    if sql:
        schema.print_sql()
        return
    from openbell_server.settings import Settings

    url = Settings().require("database_url")
    if not check:
        schema.migrate(url, to)
    if logins:
        schema.allow_logins(url, schema.logins_of(logins))
    if to == "head" and not schema.is_current(url):
        typer.echo("The schema is not current: run `openbell-server migrate`.", err=True)
        raise typer.Exit(1)
    typer.echo("The schema is current." if to == "head" else f"The schema has all revisions up to {to}.")
