"""Settings come from file, environment and command line, and a wrong one is told by its path and
never by its value."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import generate
from memsvc.core.errors import SettingsError
from memsvc.package_files import default_config
from memsvc.settings import Settings, keys, load, section_of

DEFAULT_MODEL = "openai:openai/gpt-oss-120b"
HEURISTIC = "settings: {{mcp: {{memory: {{heuristic: {}}}}}}}"
CHECKOUT = Path(__file__).resolve().parents[1]


def _file(folder: Path, text: str) -> Path:
    file = folder / "memsvc.yaml"
    file.write_text(text, "utf-8")
    return file


def _problems(folder: Path, text: str = "", **environment: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(_file(folder, text), environment)
    return refused.value.errors


def test_the_shipped_file_holds_every_key_at_its_default() -> None:
    assert load(default_config(), {}) == Settings()
    values = yaml.safe_load(default_config().read_text("utf-8"))
    assert sorted(_paths(values)) == sorted(path for path, _ in keys())


def _paths(values: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in values.items():
        found += _paths(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return found


def test_the_shipped_file_and_the_page_are_made_from_the_settings() -> None:
    assert default_config().read_text("utf-8") == generate.yaml_file(), (
        "run `python -m docs.generate`"
    )
    assert (CHECKOUT / "docs/configuration.md").read_text(
        "utf-8"
    ) == generate.configuration_page(), "run `python -m docs.generate`"


def test_every_setting_says_what_it_is() -> None:
    silent = [
        path for path, field in keys() if not field.description or section_of(field) is not None
    ]
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize(
    ("path", "default"),
    {
        "tools.memory.enabled": True,
        "memory.recent_context_items": 30,
        "memory.recall_facts_limit": 20,
        "memory.search_limit": 5,
        "memory.compact_threshold": 0.8,
        "memory.l1_retention_days": 1,
        "memory.l2_retention_days": 7,
        "memory.compaction_min_age_hours": 24,
        "memory.summary_refresh_interval_minutes": 60,
        "memory.max_processed_turns": 1024,
        "memory.heuristic.enabled": False,
        "memory.heuristic.model": "openai/gpt-oss-120b",
        "memory.heuristic.base_url": "",
        "memory.heuristic.timeout_ms": 12000,
        "memory.heuristic.max_output_tokens": 800,
    }.items(),
)
def test_the_keys_of_mcp_memory_tools_have_their_names_and_defaults(
    path: str, default: object
) -> None:
    assert {name: field.default for name, field in keys()}[f"settings.mcp.{path}"] == default


def test_later_sources_win(tmp_path: Path) -> None:
    file = _file(tmp_path, "host: a\nport: 1\ndata_dir: one\nauth:\n  mode: listed\nlimits:\n")
    settings = load(
        file,
        {"MEMSVC_PORT": "2", "MEMSVC_DATA_DIR": "two", "MEMSVC_AUTH__MODE": "open"},
        port=3,
        host=None,
    )
    assert (settings.host, settings.port, settings.data_dir, settings.auth.mode) == (
        "a",
        3,
        Path("two"),
        "open",
    )


def test_lists_are_json_or_words(tmp_path: Path) -> None:
    for text in ('["a:*", "b"]', "a:*, b", " a:* ,b,"):
        settings = load(_file(tmp_path, ""), {"MEMSVC_LIMITS__ALLOWED_HOSTS": text})
        assert settings.limits.allowed_hosts == ("a:*", "b")


def test_the_long_form_of_a_variable_wins(tmp_path: Path) -> None:
    both = {
        "MEMSVC_DATABASE__URL": "postgresql://long",
        "MEMSVC_DATABASE_URL": "postgresql://short",
    }
    assert load(_file(tmp_path, ""), both).database.url == "postgresql://long"
    alone = {"MEMSVC_DATABASE_URL": "postgresql://short"}
    assert load(_file(tmp_path, ""), alone).database.url == "postgresql://short"


def test_the_model_has_the_short_form_that_whiteboard_servers_know(tmp_path: Path) -> None:
    for model in ("openai:gpt-4", "anthropic:claude-2"):
        assert load(_file(tmp_path, ""), {"MEMORY_MODEL": model}).model.model == model
    both = {"MEMORY_MODEL": "openai:short", "MEMSVC_MODEL__MODEL": "openai:long"}
    assert load(_file(tmp_path, ""), both).model.model == "openai:long"
    [problem] = _problems(tmp_path, MEMORY_MODEL="gpt-secret")
    assert problem.startswith("model.model: ")
    assert "secret" not in problem


def test_decay_has_the_short_form_that_servers_of_memories_know(tmp_path: Path) -> None:
    for text, days in (("6", 6), ("0", 0), ("", 0), ("1.5", 1.5)):
        assert load(_file(tmp_path, ""), {"MEMORY_DECAY_DAYS": text}).memories.decay_days == days
    assert load(_file(tmp_path, ""), {}).memories.decay_days == 0
    for text in ("-1", "six"):
        [problem] = _problems(tmp_path, MEMORY_DECAY_DAYS=text)
        assert problem.startswith("memories.decay_days: ")


def test_memories_are_found_by_a_model_only_where_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is there for other programs sends no conversation anywhere."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-others")
    assert load(_file(tmp_path, ""), {}).memories_model.model == ""
    for told in ({"MEMSVC_MODEL__API_KEY": "sk"}, {"MEMSVC_MODEL__BASE_URL": "http://127.0.0.1:1"}):
        assert load(_file(tmp_path, ""), told).memories_model.model == "openai:gpt-5-mini"
    named = {"MEMSVC_MODEL__MODEL": "anthropic:some", "MEMSVC_MODEL__API_KEY": "sk"}
    assert load(_file(tmp_path, ""), named).memories_model.model == "anthropic:some"
    assert load(_file(tmp_path, ""), named).memories_model.timeout_ms == 30_000
    off = named | {"MEMSVC_SETTINGS__MCP__TOOLS__MEMORIES__ENABLED": "false"}
    assert load(_file(tmp_path, ""), off).memories_model.model == ""


def test_what_others_set_under_our_prefix_is_none_of_ours(tmp_path: Path) -> None:
    beside_a_service = {
        "MEMSVC_PORT": "tcp://10.0.0.1:80",
        "MEMSVC_PORT_80_TCP": "x",
        "MEMSVC_SERVICE_HOST": "10.0.0.1",
    }
    assert load(_file(tmp_path, ""), beside_a_service | {"MEMSVC_API_KEY": "x"}) == Settings()


def test_all_problems_are_told_at_once_by_their_paths(tmp_path: Path) -> None:
    text = (
        "port: 70000\nhosst: x\nauth: {mode: closed}\nsettings: {mcp: {memory:"
        " {compact_threshold: 1}}}"
    )
    problems = _problems(tmp_path, text, MEMSVC_AUTH__MOED="open", MEMSVC_FILES="x")
    assert [problem.split(":")[0] for problem in problems] == [
        "MEMSVC_AUTH__MOED",
        "MEMSVC_FILES",
        "port",
        "auth.mode",
        "settings.mcp.memory.compact_threshold",
        "hosst",
    ]
    assert "did you mean auth.mode?" in problems[0]
    assert "'listed' or 'open'" in problems[3]
    assert "less than 1" in problems[4]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 1: invalid YAML"),
        ("- a", "must contain YAML keys and values"),
        ("auth: 5", "auth: must be an object"),
        ("whatever: {deep: 1}", "whatever: unknown setting; the settings here are "),
        ("auth: {zzz: 1}", "auth.zzz: unknown setting; the settings in auth are "),
        ("database: {admin_url: 'postgresql://x'}", "database.admin_url is set, database.url must"),
        ("database: {url: 'mysql://x'}", "database.url: the URL must begin with postgresql://"),
        ("database: {url: 'postgresql://h:99999/x'}", "the port in the URL must be from 1 to"),
        ("embeddings: {provider: openai}", "provider openai at api.openai.com needs api_key"),
        (
            "settings: {mcp: {memory: {heuristic: {base_url: api.example.com}}}}",
            "must be an absolute URL",
        ),
        (
            HEURISTIC.format("{enabled: true}"),
            "either settings.mcp.memory.heuristic.base_url or model.model must be set",
        ),
        (
            HEURISTIC.format("{enabled: true, base_url: 'https://host/v1?a=b'}"),
            "must be an absolute URL",
        ),
        (
            HEURISTIC.format("{enabled: true, base_url: 'https://host/v1#a'}"),
            "must be an absolute URL",
        ),
        (
            "model: {model: 'openai:m'}\n" + HEURISTIC.format("{enabled: true, model: other}"),
            "base_url",
        ),
        (
            "model: {model: 'openai:m'}\n" + HEURISTIC.format("{enabled: true, api_key: k}"),
            "base_url",
        ),
    ],
)
def test_a_problem_says_what_is_allowed(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in "\n".join(_problems(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "model", "url", "timeout_ms"),
    [
        ("", "", "", 60_000),
        ("model: {model: 'openai:m'}", "openai:m", "", 60_000),
        (
            "model: {model: 'openai:m'}\n" + HEURISTIC.format("{enabled: true}"),
            "openai:m",
            "",
            12_000,
        ),
        (
            HEURISTIC.format("{enabled: true, base_url: 'https://h'}"),
            DEFAULT_MODEL,
            "https://h/v1",
            12_000,
        ),
        (
            HEURISTIC.format("{enabled: true, base_url: 'https://h/v1', model: a}"),
            "openai:a",
            "https://h/v1",
            12_000,
        ),
        (
            HEURISTIC.format("{enabled: true, base_url: 'https://h/v1/responses'}"),
            None,
            "https://h/v1",
            12_000,
        ),
        (
            HEURISTIC.format("{enabled: true, base_url: 'http://h', model: 'a:b'}"),
            "openai:a:b",
            "http://h/v1",
            12_000,
        ),
        (
            "model: {model: 'openai:m'}\n"
            + HEURISTIC.format(
                "{enabled: true, base_url: 'https://h', model: 'anthropic:m', timeout_ms: 9}"
            ),
            "anthropic:m",
            "https://h/v1",
            9,
        ),
        (
            "settings: {mcp: {tools: {memory: {enabled: false}}}}\nmodel: {model: 'openai:m'}",
            "",
            "",
            60_000,
        ),
    ],
)
def test_turn_memory_asks_the_model_of_its_own_section_or_the_general_one(
    tmp_path: Path, text: str, model: str | None, url: str, timeout_ms: int
) -> None:
    chosen = load(_file(tmp_path, text), {}).turn_model
    assert model is None or chosen.model == model
    assert (chosen.endpoint_url, chosen.timeout_ms) == (url, timeout_ms)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        load(tmp_path / "none.yaml", {})


def test_secrets_are_in_no_message_and_no_representation(tmp_path: Path) -> None:
    told = _problems(
        tmp_path,
        "port: secret-word",
        MEMSVC_DATABASE__POOL_MAX="secret-word",
        MEMSVC_DATABASE__URL__X="secret-word",
    )
    assert len(told) == 3
    assert "secret-word" not in "".join(told)
    assert "secret-word" not in "".join(
        _problems(tmp_path, MEMSVC_DATABASE_URL="mysql://u:secret-word@h/d")
    )
    keys = {
        "MEMSVC_DATABASE_URL": "postgresql://u:secret-word@h/d",
        "MEMSVC_SETTINGS__MCP__MEMORY__HEURISTIC__API_KEY": "secret-word",
    }
    assert "secret-word" not in repr(load(_file(tmp_path, ""), keys))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().host = "elsewhere"


def test_only_a_load_reads_an_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMSVC_PORT", "1")
    assert Settings(host="a").port == Settings.model_validate({}).port == 8080
    assert load(_file(tmp_path, ""), {}).port == 8080
    assert (
        load(_file(tmp_path, ""), {"MEMSVC_LIMITS__ALLOWED_HOSTS": ""}).limits.allowed_hosts == ()
    )
    [problem] = _problems(tmp_path, MEMSVC_LIMITS__ALLOWED_HOSTS="[secret-word")
    assert problem.startswith("limits.allowed_hosts: ")
    assert "secret-word" not in problem
