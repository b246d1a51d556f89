"""What is deployed fits the service: metrics that exist, settings that exist, charts that render,
rules that parse."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import alerts, dashboard
from docs.generate import yaml_file
from memsvc.gateway.metrics import Metrics
from memsvc.settings import PREFIX, SHORT_NAMES, keys, load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "memsvc"
METRIC = re.compile(r"\b(?:memsvc|mcp_memory)_[a-z_]+\b")
SET_BY_HAND = {"MEMSVC_CONFIG", "MEMSVC_APP_PASSWORD", "MEMSVC_OWNER_PASSWORD", "MEMSVC_PASSWORD"}
"""Variables of the deployment that are no settings: where the settings are, and passwords that make
up a DSN."""
VARIANTS = {
    "a database of one's own": ["--set", "database.secret=db", "--set", "database.direct=true"],
    "everything inside": [
        *(
            "--set",
            "postgresql.enabled=true",
            "--set",
            "worker.replicas=0",
            "--set",
            "ingress.enabled=true",
        ),
        *("--set", "server.autoscaling.enabled=true", "--set", "monitoring.serviceMonitor=true"),
        *("--set", "monitoring.rules=true", "--set", "networkPolicy.enabled=false"),
    ],
}


def exposed() -> set[str]:
    """The names under which Prometheus knows the metrics of the service."""
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", Metrics().text().decode(), re.MULTILINE):
        names |= (
            {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
        )
    return names


def test_every_metric_that_is_watched_exists() -> None:
    watched = [*dashboard.queries(), *(rule.query for rule in alerts.RULES)]
    named = {name for query in watched for name in METRIC.findall(query)}
    assert named
    assert named <= exposed()


def test_every_metric_is_watched_somewhere() -> None:
    watched = " ".join([*dashboard.queries(), *(rule.query for rule in alerts.RULES)])
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed()}
    assert [name for name in sorted(families) if name not in watched] == []


def test_the_dashboard_is_as_its_source_says() -> None:
    assert dashboard.DASHBOARD.read_text("utf-8") == dashboard.dashboard()
    panels = json.loads(dashboard.dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_the_alerts_are_as_their_source_says() -> None:
    assert [file.read_text("utf-8") for file in alerts.FILES] == [alerts.alerts()] * 2


def test_every_alert_has_a_description_and_a_section_of_the_runbooks() -> None:
    [group] = yaml.safe_load(alerts.alerts())["groups"]
    pages = {}
    for rule in group["rules"]:
        told = rule["annotations"]
        assert told["summary"] != told["description"]
        page, _, anchor = told["runbook_url"].partition("#")
        if page not in pages:
            headings = re.findall(r"^## (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
            pages[page] = {heading.lower().replace(" ", "-") for heading in headings}
        assert anchor in pages[page], rule["alert"]
    assert pages == {alerts.RUNBOOKS: {rule["alert"].lower() for rule in group["rules"]}}


def test_an_alert_fires_where_nothing_is_scraped() -> None:
    [rule] = [rule for rule in alerts.RULES if rule.query.startswith("absent(")]
    job = re.search(r'job=~"(.*?)"', rule.query)
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text("utf-8"))
    assert job
    assert any(re.fullmatch(job[1], one["job_name"]) for one in scraped["scrape_configs"])


def test_alerts_by_tool_see_the_first_count_of_a_series() -> None:
    # series by tool begin at their first count, which rate() does not see
    for rule in alerts.RULES:
        for counter in re.findall(r"memsvc_calls_total\{code=\"[^}]*\}", rule.query):
            assert f"{counter} unless {counter} offset 5m" in rule.query


def test_every_panel_says_how_to_read_it() -> None:
    panels = json.loads(dashboard.dashboard())["panels"]
    told = [panel["description"] for panel in panels if panel["type"] != "row"]
    assert all(told)
    assert len(set(told)) == len(told)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_rules_and_configuration() -> None:
    for check, file in (("rules", "alerts.yaml"), ("config", "prometheus.yaml")):
        command = ["promtool", "check", check, str(DEPLOY / "prometheus" / file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def settings_named(text: str) -> set[str]:
    """The variables of memsvc that a file names."""
    return set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", text)) - SET_BY_HAND


@pytest.mark.parametrize(
    "file",
    [
        "Dockerfile",
        "compose.yaml",
        *(f"helm/memsvc/templates/{one.name}" for one in CHART.glob("templates/*")),
    ],
)
def test_every_variable_is_a_setting(file: str) -> None:
    known = {PREFIX + path.upper().replace(".", "__") for path, _ in keys()} | SHORT_NAMES.keys()
    named = settings_named((DEPLOY / file).read_text("utf-8"))
    assert named - {"MEMSVC_PORT_PUBLISHED"} <= known


def test_the_image_has_what_the_package_needs_and_no_more() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored.index("*") < min(
        ignored.index(f"!{name}") for name in ("memsvc", "migrations", "config")
    )
    copied = {
        word
        for line in dockerfile.splitlines()
        if line.startswith("COPY ")
        for word in line.split()[1:-1]
    }
    assert {"memsvc", "migrations", "config", "pyproject.toml", "LICENSE", "NOTICE"} <= copied
    assert {f"!{name}" for name in copied & {"LICENSE", "NOTICE"}} <= set(ignored)
    assert re.search(r"^USER 10001:10001$", dockerfile, re.MULTILINE)
    assert "--require-hashes" in dockerfile


def services() -> dict[str, Any]:
    """The services of the compose file."""
    held: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    return held


def test_compose_runs_every_process_without_privileges() -> None:
    for name in ("migrate", "server", "worker"):
        service = services()[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]


def test_compose_gives_the_owner_to_nobody_but_the_migration() -> None:
    with_owner = [
        name
        for name, one in services().items()
        if "MEMSVC_DATABASE__ADMIN_URL" in one.get("environment", {})
    ]
    assert with_owner == ["migrate"]


def test_compose_names_exact_images_and_publishes_to_this_machine_alone() -> None:
    for service in services().values():
        image = service["image"]
        assert image == "memsvc" or re.search(r":.*\d", image), image
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_compose_limits_the_memory_of_every_service() -> None:
    assert [name for name, one in services().items() if "mem_limit" not in one] == []


def test_compose_takes_every_password_from_the_environment() -> None:
    given = [one.get("environment", {}) for one in services().values()]
    passwords = {name: text for one in given for name, text in one.items() if "PASSWORD" in name}
    assert {"POSTGRES_PASSWORD", "DB_PASSWORD", "GF_SECURITY_ADMIN_PASSWORD"} <= passwords.keys()
    assert all(text.startswith("${") for text in passwords.values())


def test_a_database_that_is_away_restarts_no_pod() -> None:
    probes = [
        line
        for file in CHART.glob("templates/*.yaml")
        for line in file.read_text("utf-8").splitlines()
        if "livenessProbe" in line and "httpGet" in line
    ]
    assert len(probes) == 2
    assert all("path: /healthz" in probe for probe in probes)


HELM = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")


def rendered(*options: str) -> list[dict[str, Any]]:
    """The manifests of a release."""
    command = ["helm", "template", "release", str(CHART), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@HELM
def test_helm_finds_no_fault() -> None:
    command = ["helm", "lint", "--strict", str(CHART), "--set", "database.secret=db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@HELM
def test_the_chart_refuses_to_guess_where_the_database_is() -> None:
    done = subprocess.run(
        ["helm", "template", "release", str(CHART)], capture_output=True, timeout=60, check=False
    )
    assert b"database.secret" in done.stderr


@HELM
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_pod_runs_without_privileges(variant: str) -> None:
    pods = [
        one["spec"]["template"]["spec"]
        for one in rendered(*VARIANTS[variant])
        if "template" in one.get("spec", {})
    ]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            if container["name"] != "postgresql":
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert "memory" in container["resources"]["limits"]


@HELM
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_password_is_in_a_manifest_but_in_secrets(variant: str) -> None:
    for one in rendered(*VARIANTS[variant]):
        if one["kind"] == "Secret":
            continue
        for variable in re.findall(
            r"'name': '([A-Z_]*(?:PASSWORD|URL)[A-Z_]*)', 'value': '([^']*)'", str(one)
        ):
            assert "$(" in variable[1], variable[0]


@HELM
@pytest.mark.parametrize("variant", VARIANTS)
def test_only_the_migration_has_the_owner(variant: str) -> None:
    with_owner = [
        one["metadata"]["labels"]["app.kubernetes.io/component"]
        for one in rendered(*VARIANTS[variant])
        if "MEMSVC_DATABASE__ADMIN_URL" in str(one)
    ]
    assert with_owner == ["migration"]


@HELM
def test_the_settings_of_a_release_are_settings(tmp_path: Path) -> None:
    given = tmp_path / "values.yaml"
    given.write_text(yaml.safe_dump({"settings": yaml.safe_load(yaml_file())}), "utf-8")
    [held] = [
        one
        for one in rendered("--set", "database.secret=db", "-f", str(given))
        if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "release"
    ]
    file = tmp_path / "memsvc.yaml"
    file.write_text(held["data"]["memsvc.yaml"], "utf-8")
    assert load(file, {}).port == 8080


@HELM
def test_the_migration_goes_before_the_pods_where_the_database_is_there_already() -> None:
    [job] = [one for one in rendered("--set", "database.secret=db") if one["kind"] == "Job"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    [job] = [one for one in rendered("--set", "postgresql.enabled=true") if one["kind"] == "Job"]
    assert "annotations" not in job["metadata"]


@HELM
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_migration_has_the_settings_of_the_release_and_its_secrets(
    variant: str, tmp_path: Path
) -> None:
    given = {
        "settings": {"limits": {"connections_max": 7}},
        "secretEnvironment": [{"name": "MEMSVC_MODEL__API_KEY", "secret": "models", "key": "one"}],
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(given), "utf-8")
    made = rendered(*VARIANTS[variant], "-f", str(file))
    [job] = [one for one in made if one["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    variables = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert "MEMSVC_MODEL__API_KEY" in variables
    mounted = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert variables["MEMSVC_CONFIG"]["value"].startswith(f"{mounted['settings']}/")
    [name] = [one["configMap"]["name"] for one in pod["volumes"] if one["name"] == "settings"]
    [held] = [one for one in made if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name]
    assert yaml.safe_load(held["data"]["memsvc.yaml"]) == given["settings"]
    # what a hook needs has to be there before the hook
    hook = job["metadata"].get("annotations", {}).get("helm.sh/hook")
    assert held["metadata"].get("annotations", {}).get("helm.sh/hook") == hook


@HELM
def test_a_single_replica_lets_its_node_be_drained() -> None:
    options = ("--set", "server.replicas=1", "--set", "worker.replicas=1")
    budgets = [
        one
        for one in rendered("--set", "database.secret=db", *options)
        if one["kind"] == "PodDisruptionBudget"
    ]
    assert [one["spec"]["maxUnavailable"] for one in budgets] == [1, 1]
