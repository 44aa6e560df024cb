"""The operator's command line: `openbell-server`."""

import sys

import typer

from openbell_server.cli import (
    accounts,
    actions,
    audit,
    backup,
    brokers,
    calendars,
    controls,
    database,
    demo,
    dev,
    doctor,
    halts,
    keys,
    organizations,
    outbox,
    processes,
    recovery,
    services,
    tokens,
    users,
    vault,
)

app = typer.Typer(
    help="Run and operate Openbell.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    # Rich would print tracebacks without the secret filter of the logs.
    pretty_exceptions_enable=False,
)
app.command("dev")(dev.dev)
app.command("migrate")(database.migrate)
app.add_typer(organizations.app, name="organizations", help="Organizations that trade here.")
app.add_typer(accounts.app, name="accounts", help="Trading accounts of organizations.")
app.add_typer(halts.app, name="halt", help="Stop the platform, an organization or an account.")
app.command("resume")(halts.resume)
app.add_typer(keys.app, name="keys", help="API keys, with which programs authenticate.")
app.add_typer(controls.app, name="controls", help="Rules of the whole platform, in addition to those of organizations.")
app.add_typer(users.app, name="users", help="Users of the identity provider.")
app.add_typer(calendars.app, name="calendars", help="Market hours, and days with changed hours.")
app.add_typer(tokens.app, name="tokens", help="Access tokens of users and service accounts, for use with `dev`.")
app.add_typer(outbox.app, name="outbox", help="The queues: their state, and how to handle failed rows.")
app.add_typer(actions.app, name="actions", help="Actions with an unknown outcome, and how to settle them.")
app.add_typer(audit.app, name="audit", help="Who changed what.")
app.add_typer(recovery.app, name="recovery", help="What happens after the database was restored or promoted.")
app.add_typer(backup.app, name="backup", help="Whether a restored database is whole.")
app.add_typer(vault.app, name="vault", help="The key that wraps sealed broker credentials.")
app.add_typer(brokers.app, name="brokers", help="What a broker's paper environment does, measured.")
app.command("doctor")(doctor.doctor)
processes.register(app)
app.command("demo")(demo.demo)
app.add_typer(services.app, name="services", help="PostgreSQL and NATS for this folder, in the background.")


def main() -> None:
    """Run the command line; errors that an operator can fix are printed without a traceback, with exit code 2."""
    from openbell_server.domain.errors import OperatorError

    try:
        app()
    except OperatorError as error:
        typer.echo(str(error), err=True)
        sys.exit(2)
