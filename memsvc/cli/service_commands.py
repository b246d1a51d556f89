"""Command `memsvc service`: start the server at login, using systemd or launchd."""

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from memsvc.cli.options import settings_of
from memsvc.cli.tool_client import CONFIG_VARIABLE, Config, DataDir
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.hosts.hook_files import write_private
from memsvc.package_files import own_program
from memsvc.settings import PREFIX
from memsvc.variables import CLIENT_VARIABLES, DATA_DIR_VARIABLE

NAME: Final = "memsvc"
MARK: Final = "written by `memsvc service install`"
GRACE_S: Final = 15
"""Seconds beyond the settings' own until a server that stops is killed."""

OPTIONS: Final = {f"{PREFIX}HOST": "pass --host", f"{PREFIX}PORT": "pass --port"}
"""What to do about variables that have an option of their own."""

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the service file or the actions that would be taken, without changing"
        " anything.",
    ),
]

commands = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@frozen
class ServiceManager:
    """How the server is started: its file, and the commands that load and unload it."""

    file: Path
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    forget: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]


def service_manager(platform: str) -> ServiceManager:
    """Return the service manager of a platform (`sys.platform`): systemd or launchd.

    Raises INVALID_ARGUMENT for a platform that has neither."""
    if platform == "darwin":
        file = Path.home() / f"Library/LaunchAgents/{NAME}.plist"
        domain = f"gui/{os.getuid()}"
        stop = ("launchctl", "bootout", f"{domain}/{NAME}")
        start = ("launchctl", "bootstrap", domain, str(file))
        return ServiceManager(
            file, (start,), (stop,), (), ("launchctl", "print", f"{domain}/{NAME}")
        )
    if platform != "linux":
        raise invalid(f"memsvc does not support any service manager on {platform}")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = config / f"systemd/user/{NAME}.service"
    user = ("systemctl", "--user")
    reload = (*user, "daemon-reload")
    return ServiceManager(
        file,
        (reload, (*user, "enable", NAME), (*user, "restart", NAME)),
        ((*user, "disable", "--now", NAME),),
        (reload,),
        (*user, "--no-pager", "status", NAME),
    )


def systemd_unit(arguments: list[str], stop_s: int) -> str:
    """Return a user unit for systemd that runs a command until it is stopped."""
    # `:` keeps systemd from replacing variables, so that `$` is no special character
    command = " ".join(map(_quoted, arguments))
    return f"""\
# {MARK}; `memsvc service remove` removes it
[Unit]
Description=memsvc, long-term memory for agents

[Service]
ExecStart=:{command}
# the output of the first start contains the API key; the log is in the journal
StandardOutput=null
Restart=on-failure
RestartSec=2
# do not restart with invalid settings
RestartPreventExitStatus=2
# stop only the server: other processes may still use the PostgreSQL of the data folder,
# and the last of them stops PostgreSQL
KillMode=process
TimeoutStopSec={stop_s}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def launchd_agent(arguments: list[str], stop_s: int, log: Path) -> str:
    """Return an agent for launchd that runs a command until it is stopped."""
    agent = {
        "Label": NAME,
        "ProgramArguments": arguments,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": stop_s,
        "AbandonProcessGroup": True,
        "Umask": 0o077,
        "StandardOutPath": os.devnull,
        "StandardErrorPath": str(log),
    }
    text = plistlib.dumps(agent, sort_keys=False).decode()
    return text.replace("<plist ", f"<!-- {MARK} -->\n<plist ", 1)


@commands.command()
def install(
    config: Config = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Start the server now and at each login. The options are passed on to `memsvc serve`."""
    settings = settings_of(config, data_dir=data_dir, host=host, port=port)
    options: dict[str, Path | str | int | None] = {
        "--config": config and config.absolute(),
        "--data-dir": settings.data_dir.absolute(),
        "--host": host,
        "--port": port,
    }
    given = [str(part) for pair in options.items() if pair[1] is not None for part in pair]
    arguments = [*own_program(), "serve", *given]
    stop_s = int(settings.shutdown_notice_s + settings.shutdown_grace_s) + GRACE_S
    manager = service_manager(sys.platform)
    if manager.file.suffix == ".plist":
        text = launchd_agent(arguments, stop_s, Path.home() / f"Library/Logs/{NAME}.log")
    else:
        text = systemd_unit(arguments, stop_s)
    for name in _left_out():
        advice = OPTIONS.get(name, "put the setting into the file that --config names")
        print(
            f"Warning: {name} is set in this shell, but the service does not receive it: {advice}",
            file=sys.stderr,
        )
    if dry_run:
        print(text, end="")
        return
    _check_owner(manager.file)
    manager.file.parent.mkdir(parents=True, exist_ok=True)
    write_private(manager.file, text)
    print(f"wrote the service file {manager.file}")
    if manager.file.suffix == ".plist":  # an agent that runs has to go before it is loaded anew
        _run(manager.stop, quiet=True)
    if not _run(manager.start):
        return
    print("the server was started; `memsvc service status` shows whether it is running")
    if sys.platform == "linux":
        print("to keep the service running while you are logged out, run: loginctl enable-linger")


@commands.command()
def status() -> None:
    """Show whether the service is installed and running; the exit code is 0 if it is running."""
    manager = service_manager(sys.platform)
    installed = manager.file.exists()
    print(
        f"the service is {'installed' if installed else 'not installed'}; service file:"
        f" {manager.file}",
        flush=True,
    )
    if not installed:
        raise typer.Exit(1)
    if shutil.which(manager.status[0]) is None:
        print(
            f"the command {manager.status[0]} was not found, so the state of the service is unknown"
        )
        raise typer.Exit(1)
    raise typer.Exit(subprocess.run(manager.status, check=False).returncode)


@commands.command()
def remove(dry_run: DryRun = False) -> None:
    """Stop the service and remove the service file. Data and keys are kept."""
    manager = service_manager(sys.platform)
    if not manager.file.exists():
        print(f"the service is not installed: there is no file {manager.file}")
        return
    _check_owner(manager.file)
    if dry_run:
        print(f"this service file would be removed: {manager.file}")
        return
    _run(manager.stop)
    manager.file.unlink()
    print(f"removed the service file {manager.file}")
    _run(manager.forget)


def _quoted(argument: str) -> str:
    """Return an argument as systemd reads it back, whatever it holds."""
    text = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"'.replace("\n", "\\n")


def _check_owner(file: Path) -> None:
    """Raise INVALID_ARGUMENT where somebody else wrote the file."""
    if file.exists() and MARK not in file.read_text("utf-8"):
        raise invalid(
            f"{file} already exists and was not written by memsvc",
            recovery="move that file elsewhere and run the command again, or leave it in place"
            " and manage that service without memsvc",
        )


def _left_out() -> list[str]:
    """Return the names of settings in the environment, which the service does not inherit."""
    passed = {*CLIENT_VARIABLES, CONFIG_VARIABLE, DATA_DIR_VARIABLE}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in passed)


def _run(lines: tuple[tuple[str, ...], ...], *, quiet: bool = False) -> bool:
    """Run service manager commands; return False and print the remaining ones if one fails."""
    for number, line in enumerate(lines):
        found = shutil.which(line[0])
        done = found and subprocess.run(line, check=False, capture_output=True, text=True)
        if done and done.returncode == 0:
            continue
        if not quiet:
            error = (done.stderr.strip().splitlines() if done else []) or ["not found"]
            print(f"{line[0]} failed: {error[0]}. Run this command yourself:", file=sys.stderr)
            print("\n".join(f"  {' '.join(each)}" for each in lines[number:]), file=sys.stderr)
        return False
    return True
