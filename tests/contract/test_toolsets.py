"""What listed tools cost a model, and what they tell it."""

import orjson
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.tools import TOOLSETS, Tool
from memsvc.gateway.schemas import input_schema
from tests.contract.catalogue import TOOLS

AGENT_TOK_MAX = 2800
ALL_TOK_MAX = 12_000
COUNTER = O200kCounter()
AGENT = [tool for tool in TOOLS.values() if tool.is_in({"agent"})]


def tokens(tool: Tool) -> int:
    text = orjson.dumps(
        {"name": tool.name, "description": tool.description, "inputSchema": input_schema(tool)}
    )
    return COUNTER.count(text.decode())


def test_the_default_list_and_all_that_agents_can_list_stay_within_their_tokens() -> None:
    assert sum(map(tokens, AGENT)) <= AGENT_TOK_MAX
    assert sum(tokens(tool) for tool in TOOLS.values() if not tool.is_admin) <= ALL_TOK_MAX


@pytest.mark.parametrize("tool", AGENT, ids=lambda tool: tool.name)
def test_a_tool_of_the_default_list_says_when_to_call_it_and_what_each_argument_is(
    tool: Tool,
) -> None:
    assert tool.description.startswith("Call ")
    properties = input_schema(tool)["properties"]
    assert all(field.get("description", "").strip() for field in properties.values())


def test_every_tool_says_in_which_set_it_is() -> None:
    assert not [tool.name for tool in TOOLS.values() if tool.toolset == "all"]
    assert {tool.toolset for tool in TOOLS.values()} <= {*TOOLSETS}


def test_a_schema_names_nothing_that_a_client_need_not_send() -> None:
    for tool in TOOLS.values():
        text = orjson.dumps(input_schema(tool)).decode()
        assert '"plugin"' not in text, tool.name
        assert str(2**53) not in text, tool.name
        assert '"null"' not in text, tool.name
