"""`memsvc service`: the files that systemd and launchd read, and what is run to load them."""

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import typed

UNIT = ".config/systemd/user/memsvc.service"
AGENT = "Library/LaunchAgents/memsvc.plist"
ODD = "a b%c$d\"e'f\\g;h#é"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with a `systemctl` and a `launchctl` that note how they were called."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    for folder in (home, programs):
        folder.mkdir()
    for name in ("systemctl", "launchctl"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/ran\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(home)
    monkeypatch.setattr("sys.platform", "linux")
    return home


def service(*arguments: str, status: int = 0, **variables: str) -> str:
    done = typed("service", *arguments, **variables)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def printed_file(*arguments: str) -> str:
    """The file that `memsvc service install` would write."""
    return typed("service", "install", "--dry-run", *arguments).stdout


def ran(home: Path) -> list[str]:
    file = home.parent / "ran"
    return file.read_text().splitlines() if file.exists() else []


def unquoted(line: str) -> list[str]:
    """The words of a line of a unit as systemd reads them: all are in quotation marks."""
    words, word, at = [], "", line.index('"') + 1
    while at < len(line):
        if line[at] == "\\":
            word, at = word + line[at + 1], at + 2
        elif line[at] == '"':
            words.append(word)
            word, at = "", line.find('"', at + 1) + 1 or len(line)
        else:
            word, at = word + line[at], at + 1
    return [word.replace("%%", "%") for word in words]


def test_systemd_unit_runs_the_server_with_the_options_given(home: Path) -> None:
    text = printed_file("--data-dir", ODD, "--port", "9090")
    [command] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    *program, serve, folder_option, folder, port_option, port = unquoted(command)
    assert command.startswith('ExecStart=:"')  # variables are not replaced
    assert Path(program[0]).is_absolute()
    assert (serve, folder_option, folder) == ("serve", "--data-dir", str(home / ODD))
    assert (port_option, port) == ("--port", "9090")
    assert "StandardOutput=null" in text  # the first start prints the key
    assert [*home.rglob("*")] == []
    assert ran(home) == []


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
@pytest.mark.parametrize("folder", ["data", ODD])
def test_systemd_takes_the_unit(
    folder: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = tmp_path / "memsvc.service"
    unit.write_text(printed_file("--data-dir", folder))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr  # other units of this machine are its own affair


def test_launchd_agent_runs_the_server_with_the_options_given(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    agent = plistlib.loads(printed_file("--data-dir", ODD).encode())
    assert agent["ProgramArguments"][-3:] == ["serve", "--data-dir", str(home / ODD)]
    assert agent["RunAtLoad"] is True
    assert agent["StandardOutPath"] == "/dev/null"
    assert agent["Umask"] == 0o077


@pytest.mark.parametrize(
    ("platform", "file", "started", "stopped"),
    [
        (
            "linux",
            UNIT,
            [
                "systemctl --user daemon-reload",
                "systemctl --user enable memsvc",
                "systemctl --user restart memsvc",
            ],
            ["systemctl --user disable --now memsvc", "systemctl --user daemon-reload"],
        ),
        (
            "darwin",
            AGENT,
            [
                f"launchctl bootout gui/{os.getuid()}/memsvc",
                f"launchctl bootstrap gui/{os.getuid()} HOME/{AGENT}",
            ],
            [f"launchctl bootout gui/{os.getuid()}/memsvc"],
        ),
    ],
)
def test_install_writes_a_private_file_and_remove_takes_it_back(
    platform: str,
    file: str,
    started: list[str],
    stopped: list[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    service("status", status=1)
    for _ in range(2):  # again is an update
        assert "started" in service("install")
    assert (home / file).stat().st_mode & 0o777 == 0o600
    assert ran(home) == [line.replace("HOME", str(home)) for line in started] * 2
    assert "is installed" in service("status")
    assert f"would be removed: {home / file}" in service("remove", "--dry-run")
    (home.parent / "ran").unlink()
    assert f"removed the service file {home / file}" in service("remove")
    assert ran(home) == stopped
    assert not (home / file).exists()
    assert "not installed" in service("remove")


def test_install_says_what_to_run_where_the_manager_does_not_answer(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.parent / "bin/systemctl").write_text("#!/bin/sh\necho No bus >&2\nexit 1\n")
    told = service("install")
    assert (
        "systemctl failed: No bus. Run this command yourself:\n  systemctl --user daemon-reload\n"
        in told
    )
    assert "systemctl --user restart memsvc" in told
    monkeypatch.setenv("PATH", "/nowhere")
    assert "systemctl failed: not found. Run this command yourself:" in service("install")
    assert "started" not in told
    service("status", status=1)


def test_install_leaves_the_unit_of_somebody_else(home: Path) -> None:
    (home / UNIT).parent.mkdir(parents=True)
    (home / UNIT).write_text("[Service]\nExecStart=mine\n")
    for command in ("install", "remove"):
        assert "already exists" in service(command, status=1)
    assert (home / UNIT).read_text() == "[Service]\nExecStart=mine\n"


def test_install_names_settings_of_the_environment_that_the_service_does_not_get(
    home: Path,
) -> None:
    variables = {"MEMSVC_LIMITS__CONNECTIONS_MAX": "7", "MEMSVC_API_KEY": "msk_secret"}
    told = service("install", **variables)
    assert "Warning: MEMSVC_LIMITS__CONNECTIONS_MAX is set in this shell" in told
    assert "MEMSVC_API_KEY" not in told
    assert "msk_secret" not in told + (home / UNIT).read_text()


def test_dry_run_names_settings_of_the_environment_and_the_option_to_pass(home: Path) -> None:
    told = service("install", "--dry-run", MEMSVC_PORT="9091", MEMSVC_AUTH__MODE="open")
    assert (
        "MEMSVC_PORT is set in this shell, but the service does not receive it: pass --port" in told
    )
    assert "MEMSVC_AUTH__MODE" in told
    assert not (home / UNIT).exists()


def test_service_refuses_a_platform_without_a_manager(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "freebsd14")
    assert "service manager on freebsd14" in service("status", status=1)
