"""Commands about the database schema."""

from typing import Annotated

import typer

from openbell_server.domain.errors import OperatorError


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Only check whether the schema is current; exit 1 if not.")
    ] = False,
    to: Annotated[str, typer.Option(help="Stop after this revision.")] = "head",
    login: Annotated[
        str, typer.Option(help="Also create this login for the processes, without a password, with their roles.")
    ] = "",
    executor_login: Annotated[
        str, typer.Option(help="The same for executors; only they may read sealed credentials.")
    ] = "",
    sql: Annotated[bool, typer.Option("--sql", help="Only print the statements, for an empty database.")] = False,
) -> None:
    """Migrate the database at OPENBELL_DATABASE_URL to the newest schema."""
    from openbell_server.adapters.postgres import migrate as schema

    if sql:
        schema.print_sql()
        return
    from openbell_server.adapters.postgres.connection import EXECUTOR_ROLES
    from openbell_server.settings import Settings

    if login and login == executor_login:
        raise OperatorError("Executors need a login of their own: use another name after --executor-login.")
    url = Settings().require("database_url")
    if not check:
        schema.migrate(url, to)
    if login:
        schema.allow_login(url, login)
    if executor_login:
        schema.allow_login(url, executor_login, EXECUTOR_ROLES)
    if to == "head" and not schema.is_current(url):
        typer.echo("The schema is not current: run `openbell-server migrate`.", err=True)
        raise typer.Exit(1)
    typer.echo("The schema is current." if to == "head" else f"The schema has all revisions up to {to}.")
