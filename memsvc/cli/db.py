"""Command `memsvc db`: the database as its operator handles it."""

import typer

from memsvc.cli import backups, distributing

commands = typer.Typer(help="The database as a whole: kept, brought back, distributed.", no_args_is_help=True)
commands.command("archive")(backups.archive)
commands.command("backup")(backups.backup)
commands.command("backups")(backups.backups)
commands.command("restore")(backups.restore)
commands.command("distribute")(distributing.distribute)
