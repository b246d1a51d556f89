"""What `memsvc install` writes into the configuration of hosts, and that it takes all of it back."""

import json
import os
import pwd
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from memsvc.core.urls import decode_header
from memsvc.hosts import host_configs
from memsvc.hosts.hook_files import HookFiles, project_of
from tests.contract.catalogue import TOOLS
from tests.e2e.process import environment, typed

KEY = "msk_never-shown"
FOREIGN_HOOK = '{"hooks": [{"type": "command", "command": "mine.sh", "timeout": 60}]}'
ROWS = [
    # host, file below the home, what somebody wrote there
    ("claude-code", ".claude.json", '{\n  "numStartups": 1.0,\n  "mcpServers": {"other": {"url": "u"}}\n}'),
    (
        "claude-code",
        ".claude/settings.json",
        '{"model": "opus", "hooks": {"Stop": [\n ' + FOREIGN_HOOK + "]}}",
    ),
    ("codex", ".codex/config.toml", '# mine\nmodel = "m"\n\n[mcp_servers.other]\nurl = "u" # kept'),
    ("codex", ".codex/hooks.json", '{"hooks": {"Stop": [' + FOREIGN_HOOK + "]}}\n"),
    ("cursor", ".cursor/mcp.json", '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"}\n\t}\n}\n'),
    ("cursor", ".cursor/hooks.json", '{"version": 1, "hooks": {"stop": [{"command": "x"}]}}'),
    ("gemini", ".gemini/settings.json", '{\n  // theme\n  "theme": "é\\u00e9", /* x */\n  "a": []\n}\n'),
    ("opencode", ".config/opencode/opencode.jsonc", '{\n  "model": "x", // trailing\n}\n'),
    ("vscode", ".config/Code/User/mcp.json", '{\n    "servers": {},\n    "inputs": []\n}\n'),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "{}"),
    ("windsurf", ".codeium/windsurf/memories/global_rules.md", "# Rules\n\nBe brief.\n"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", '{"globalShortcut": ""}'),
]  # fmt: skip
HOSTS = sorted({host for host, _, _ in ROWS})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(home / "work")
    return home


def install(*arguments: str) -> str:
    """What the command says, which is never the key."""
    done = typed("install", *arguments, MEMSVC_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stdout


def contents(home: Path) -> dict[str, bytes]:
    """All files below the home."""
    files = (path for path in home.rglob("*") if path.is_file())
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


def written(home: Path) -> None:
    for _, file, text in ROWS:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)


@pytest.mark.parametrize("variables", [{}, {"MEMSVC_DATA_DIR": "data"}])
def test_key_comes_from_the_data_folder_and_a_missing_one_is_named(
    home: Path, variables: dict[str, str]
) -> None:
    file = Path(variables.get("MEMSVC_DATA_DIR", ".memsvc")) / "api-key"
    refused = typed("install", "codex", **variables)
    assert f"no API key was given, and the file {file} does not exist" in refused.stderr
    assert "pass --key" in refused.stderr
    file.parent.mkdir()
    file.write_text(KEY)
    assert typed("install", "codex", **variables).returncode == 0
    assert KEY in (home / ".codex/config.toml").read_text()


def test_server_is_the_named_one_or_that_at_the_port_of_the_variables(home: Path) -> None:
    moved = {"MEMSVC_PORT": "8134"}
    assert typed("install", "codex", "--key", KEY, **moved).returncode == 0
    assert "http://127.0.0.1:8134/mcp" in (home / ".codex/config.toml").read_text()
    named = moved | {"MEMSVC_URL": "https://memory.example"}
    assert typed("install", "codex", "--key", KEY, **named).returncode == 0
    assert "https://memory.example/mcp" in (home / ".codex/config.toml").read_text()


@pytest.mark.parametrize("foreign", [True, False])
def test_what_is_installed_is_removed_again_and_nothing_else(home: Path, foreign: bool) -> None:
    if foreign:
        written(home)
    before = contents(home)
    for host in HOSTS:
        last = contents(home)
        install(host, "--dry-run")
        assert contents(home) == last, host
        install(host)
        once = contents(home)
        assert once != last, host
        assert "written" not in install(host), host
        assert contents(home) == once, host
        if foreign:
            changed = {file for row, file, _ in ROWS if row == host}
            assert changed <= {file for file in before if once[file] != last[file]}, host
    for host in HOSTS:
        install(host, "--remove")
    after = contents(home)
    differing = [file for file in {*before, *after} if before.get(file) != after.get(file)]
    assert [(file, after.get(file)) for file in differing] == []


def test_what_was_there_stands_beside_what_is_installed(home: Path) -> None:
    written(home)
    for host in HOSTS:
        install(host)
    servers = json.loads((home / ".claude.json").read_text())["mcpServers"]
    assert servers["other"] == {"url": "u"}
    account = pwd.getpwuid(os.getuid()).pw_name
    assert servers["memsvc"]["headers"] == {
        "Authorization": f"Bearer {KEY}",
        "X-Memsvc-Tools": "host",
        "X-Memsvc-User": account,
    }
    stops = json.loads((home / ".claude/settings.json").read_text())["hooks"]["Stop"]
    assert stops[0] == json.loads(FOREIGN_HOOK)
    command = shlex.split(stops[1]["hooks"][0]["command"])
    assert command[-4:] == ["hook", "stop", "--host", "claude-code"]
    assert set(tomllib.loads((home / ".codex/config.toml").read_text())["mcp_servers"]) == {
        "other",
        "memsvc",
    }
    gemini = (home / ".gemini/settings.json").read_text()
    assert "// theme" in gemini
    assert '"é\\u00e9", /* x */' in gemini
    assert host_configs.find(gemini, ("hooks", "AfterAgent")) is not None
    rules = (home / ".codeium/windsurf/memories/global_rules.md").read_text()
    assert rules.startswith("# Rules\n\nBe brief.\n<!-- memsvc: begin")


def test_a_server_of_the_users_own_is_brought_back(home: Path) -> None:
    file = home / ".claude.json"
    before = '{"mcpServers": {"memsvc": {"url": "mine"}, "other": {}}}'
    file.write_text(before)
    install("claude-code")
    install("claude-code")
    assert "mine" not in file.read_text()
    install("claude-code", "--remove")
    assert json.dumps(json.loads(file.read_text())) == before  # in its place


def test_files_of_a_project_hold_no_key(home: Path) -> None:
    for host in ("claude-code", "cursor", "gemini", "opencode", "vscode"):
        assert KEY.encode() not in b"".join(contents(home / "work").values())
        install(host, "--scope", "project")
        install(host, "--scope", "project", "--remove")
        assert contents(home) == {}, host
    assert typed("install", "windsurf", "--scope", "project", "--key", "k").returncode == 1


def test_hosts_that_were_not_run_get_the_shapes_of_their_documentation(home: Path) -> None:
    for host in ("cursor", "vscode", "windsurf", "claude-desktop"):
        install(host, "--user", "ada")
    files = contents(home)
    url = "http://127.0.0.1:8080/mcp"
    headers = {"Authorization": f"Bearer {KEY}", "X-Memsvc-User": "ada"}
    hooked = headers | {"X-Memsvc-Tools": "host"}
    servers = {
        ".cursor/mcp.json": ("mcpServers", {"url": url, "headers": hooked}),
        ".config/Code/User/mcp.json": ("servers", {"type": "http", "url": url, "headers": headers}),
        ".codeium/windsurf/mcp_config.json": ("mcpServers", {"serverUrl": url, "headers": headers}),
    }
    for file, (member, server) in servers.items():
        assert json.loads(files[file]) == {member: {"memsvc": server}}, file
    desktop = json.loads(files[".config/Claude/claude_desktop_config.json"])["mcpServers"]["memsvc"]
    assert Path(desktop["command"]).is_absolute()
    assert desktop["args"][-1] == "stdio"
    assert desktop["env"] == {
        "MEMSVC_URL": "http://127.0.0.1:8080",
        "MEMSVC_API_KEY": KEY,
        "MEMSVC_USER": "ada",
    }
    hooks = json.loads(files[".cursor/hooks.json"])
    assert hooks["version"] == 1
    commands = {event: [each["command"] for each in row] for event, row in hooks["hooks"].items()}
    assert {event: row[0].partition(" hook ")[2] for event, row in commands.items()} == {
        "sessionStart": "session-start --host cursor",
        "beforeSubmitPrompt": "prompt --host cursor",
        "afterAgentResponse": "stop --host cursor",
        "stop": "stop --host cursor",
        "preCompact": "pre-compact --host cursor",
    }
    told = files[".config/Code/User/prompts/memsvc.instructions.md"].decode()
    assert told.startswith('---\napplyTo: "**"\n---\n\nBefore you answer, call memory_before_turn')
    assert 'user_id "ada"' in told
    assert 'user_id "ada"' in files[".codeium/windsurf/memories/global_rules.md"].decode()


def test_files_of_a_project_name_no_user(home: Path) -> None:
    for host in ("claude-code", "cursor", "gemini", "opencode", "vscode"):
        said = install(host, "--scope", "project", "--user", "zoe-at-home")
        files = {name: text for name, text in contents(home).items() if name.startswith("work/")}
        assert files, host
        assert b"zoe-at-home" not in b"".join(files.values()), host
        assert ("user zoe-at-home" in said) == (host != "vscode")
        install(host, "--scope", "project", "--remove")
    assert "memory is stored for: the user that the key is bound to, project" in said


def test_files_of_a_project_are_as_hosts_document_them(home: Path) -> None:
    install("vscode", "--scope", "project")
    install("cursor", "--scope", "project")
    vscode = json.loads((home / "work/.vscode/mcp.json").read_text())
    reference = {"Authorization": "Bearer ${input:memsvc-key}", "X-Memsvc-Project": "default"}
    assert vscode["servers"]["memsvc"]["headers"] == reference
    assert [(each["id"], each["type"], each["password"]) for each in vscode["inputs"]] == [
        ("memsvc-key", "promptString", True)
    ]
    cursor = json.loads((home / "work/.cursor/mcp.json").read_text())
    assert cursor["mcpServers"]["memsvc"]["headers"] == {
        "Authorization": "Bearer ${env:MEMSVC_API_KEY}",
        "X-Memsvc-Tools": "host",
        "X-Memsvc-Project": "default",
    }
    told = (home / "work/.github/instructions/memsvc.instructions.md").read_text()
    assert "Before you answer, call memory_before_turn" in told
    assert "user_id" not in told
    start = json.loads((home / "work/.cursor/hooks.json").read_text())["hooks"]["sessionStart"]
    assert start[0]["command"] == "memsvc hook session-start --host cursor"


def test_install_ends_with_whose_memory_it_is_and_what_to_do_next(home: Path) -> None:
    said = install("claude-code", "--user", "ada", "--project", "garden").splitlines()
    assert said[-3:] == [
        "memory is stored for: user ada, project garden",
        "console: http://127.0.0.1:8080/console",
        "next: start claude-code and ask it: What do you know about me?",
    ]
    assert "memory of" not in install("claude-code", "--remove")


@pytest.mark.parametrize("folder", ["work", ".claude"])
def test_claude_code_connects_to_the_memory_of_its_hooks(home: Path, folder: str) -> None:
    """Its versions run what makes the headers in the folder of the work, or in their own."""
    install("claude-code", "--user", "Ada Ö", "--scope", "user")
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["memsvc"]
    (home / "work/.git").mkdir()
    done = subprocess.run(
        f"cd '{home / folder}'; {server['headersHelper']}; true",
        shell=True,
        check=True,
        capture_output=True,
        env=environment(),
    )
    headers = json.loads(done.stdout)
    assert headers["X-Memsvc-Project"] == project_of(str(home / "work")) != "default"
    assert decode_header(headers["X-Memsvc-User"].encode()) == "Ada Ö"
    assert headers["X-Memsvc-Tools"] == "host"


def test_claude_code_may_use_what_only_reads(home: Path) -> None:
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text('{"permissions": {"allow": ["Bash(ls)"]}}')
    install("claude-code")
    allowed = json.loads(file.read_text())["permissions"]["allow"]
    assert allowed[0] == "Bash(ls)"
    tools = [name.removeprefix("mcp__memsvc__") for name in allowed[1:]]
    assert tools
    assert all(TOOLS[name].read_only for name in tools)
    install("claude-code", "--remove")
    assert json.loads(file.read_text()) == {"permissions": {"allow": ["Bash(ls)"]}}


@pytest.mark.parametrize("host", ["codex", "claude-code", "gemini"])
def test_file_with_the_key_is_private_and_install_says_so(home: Path, host: str) -> None:
    file = {
        "codex": home / ".codex/config.toml",
        "claude-code": home / ".claude.json",
        "gemini": home / ".gemini/settings.json",
    }[host]
    file.parent.mkdir(exist_ok=True)
    file.write_text("" if host == "codex" else "{}")
    file.chmod(0o644)
    said = install(host)
    assert f"written: {file}; the file contains the key, so it is now readable only by you" in said
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    assert f"unchanged: {file}; the file contains the key" in install(host)
    assert file.stat().st_mode & 0o777 == 0o600


def test_remove_leaves_no_folder_and_no_waiting_prompt(home: Path) -> None:
    before = set(home.rglob("*"))
    install("claude-code", "--scope", "project")
    files = HookFiles({"XDG_CONFIG_HOME": str(home / ".config")})
    files.spool({"project": "default", "turn_id": "t", "input_items": []})
    files.keep_session("s", {"turns": 1, "pending": {"turn_id": "u", "project": "p"}, "seen": []})
    said = install("claude-code", "--scope", "project", "--remove", "--url", "http://127.0.0.1:9")
    assert "0 turns that were waiting to be sent were stored, and 2 were deleted" in said
    assert set(home.rglob("*")) <= before | {home / ".config", home / ".config/memsvc"}


def test_a_broken_file_is_named_and_nothing_is_written(home: Path) -> None:
    broken = [
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": [}'),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": {}}}'),
        ("codex", ".codex/config.toml", "model = "),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": []}'),
        ("gemini", ".gemini/settings.json", '"text"'),
        ("opencode", ".config/opencode/plugin/memsvc.js", "// somebody else's"),
    ]
    for host, file, text in broken:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
        before = contents(home)
        done = typed("install", host, MEMSVC_API_KEY=KEY)
        assert (done.returncode, str(home / file) in done.stderr) == (1, True), (host, done)
        assert contents(home) == before, host
        (home / file).unlink()
