"""Command `memsvc db`: the database as its operator handles it."""

import typer

from memsvc.cli import backup_commands, cluster_commands

commands = typer.Typer(
    help="The database as a whole: kept, brought back, distributed.", no_args_is_help=True
)
commands.command("archive")(backup_commands.archive)
commands.command("backup")(backup_commands.backup)
commands.command("backups")(backup_commands.backups)
commands.command("restore")(backup_commands.restore)
commands.command("distribute")(cluster_commands.distribute)
