"""Without a model the board is made of what was said: what matters most, within the limit, without
what it replaced."""

import asyncio
from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.styles.whiteboard.entries import BoardEntry
from memsvc.styles.whiteboard.extractive import LEFT_OUT_NOTE, extracted
from tests.door import Door
from tests.styles.whiteboard.conftest import Opened
from tests.styles.whiteboard.pages import WHO, entry, note, read

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(tokens: O200kCounter) -> Any:
    """The board of what users said one after the other, each in an update of its own."""

    def make(*said: str, board: str = "", tokens_max: int = 1500) -> str:
        for text in said:
            board = extracted(
                board, [BoardEntry("user", text)], tokens_max=tokens_max, count=tokens.count
            )
        return board

    return make


async def test_a_board_by_rules_says_so_and_sorts_what_was_said(opened: Opened) -> None:
    board = opened()
    said = [
        entry("We decided to launch in March. My name is Ada Lovelace, hello!"),
        entry("Please send the report to Bob by Friday.", "assistant"),
        entry("Which budget do we have for posters?"),
        entry("ok"),
    ]
    await board("context_update", **WHO, entries=said)
    found = await board("whiteboard_get", **WHO)
    assert found["made_by"] == "rules"
    assert found["text"] == (
        "## Decisions\n- We decided to launch in March. (user)\n\n"
        "## Tasks\n- Please send the report to Bob by Friday. (assistant)\n\n"
        "## Open questions\n- Which budget do we have for posters? (user)\n\n"
        "## Facts\n- My name is Ada Lovelace, hello! (user)"
    )


async def test_japanese_and_chinese_are_cut_into_sentences_and_sorted(made: Any) -> None:
    japanese = made(
        "発売日は三月に決定しました。報告書を金曜日までに送ってください。予算はいくらですか？"
    )
    assert japanese == (
        "## Decisions\n- 発売日は三月に決定しました。 (user)\n\n"
        "## Tasks\n- 報告書を金曜日までに送ってください。 (user)\n\n"
        "## Open questions\n- 予算はいくらですか？ (user)"
    )
    chinese = made("我们决定采用新的方案。请在周五之前完成报告。谁负责预算？")
    assert [line for line in chinese.splitlines() if line.startswith("##")] == [
        "## Decisions",
        "## Tasks",
        "## Open questions",
    ]


@pytest.mark.parametrize(
    ("said", "kept", "gone"),
    [
        (
            ["We decided to paint the logo blue.", "We decided to paint the logo blue."],
            ["blue"],
            [],
        ),
        (["The launch is on 12 March.", "The launch is on 15 March."], ["15"], ["12"]),
        (
            ["We will use Postgres as the database.", "We will use MySQL as the database instead."],
            ["MySQL"],
            ["Postg"],
        ),
        (
            ["Which database do we use for orders?", "For orders the database is Postgres."],
            ["Postgres"],
            ["Which"],
        ),
        (
            ["会議は三月十二日に開催します。", "会議は三月十五日に開催に変更します。"],
            ["十五"],
            ["十二"],
        ),
        (
            ["Ada likes tea.", "Bob likes tea.", "I like hiking.", "I like swimming."],
            ["Ada", "Bob", "hik", "swim"],
            [],
        ),
    ],
)
async def test_what_is_said_anew_takes_the_place_of_the_old(
    made: Any, said: list[str], kept: list[str], gone: list[str]
) -> None:
    board = made(*said)
    assert [word for word in kept if board.count(word) != 1] == []
    assert [word for word in gone if word in board] == []


DISTINCT = [
    ["Ticket 101 is fixed.", "Ticket 102 is fixed.", "Ticket 103 is fixed."],
    ["Invoice 4711 was paid.", "Invoice 4712 was paid."],
    ["Decided: server 10.0.0.5 runs Postgres.", "Decided: server 10.0.0.6 runs Postgres."],
    ["The standby is 10.0.0.5.", "The standby is 10.0.0.6."],
    ["Room 12 is booked on Monday.", "Room 14 is booked on Monday."],
    ["Room 12 is booked on Monday.", "Room 12 is booked on Friday."],
    ["Step 1 is done.", "Step 2 is done."],
    ["Sprint 4: we ship search.", "Sprint 5: we ship search."],
    ["PR #88 was merged.", "PR #91 was merged."],
    ["Version 1.2.3 is out.", "Version 1.2.4 is out."],
    ["Ticket 101 is postponed.", "Ticket 102 is postponed."],
    ["Ticket 101 is open.", "Ticket 102 is closed."],
    ["Is ticket 101 fixed?", "Is ticket 102 fixed?"],
    ["Is ticket 101 fixed?", "Ticket 102 is fixed."],
    ["The east cluster runs k3s, north runs k8s.", "Spare capacity in the east is now nine cores."],
    ["Images are signed by hand before a release.", "That bricks some: no release."],
    ["We pushed the branch.", "The reviewers are happy, no PR yet so nothing is pushed."],
    ["The payments team owns the invoice service.", "The orders team owns the invoice service."],
    ["Ticket 101 ist erledigt.", "Ticket 102 ist erledigt."],
    ["La facture 4711 est payée.", "La facture 4712 est payée."],
    ["La sala 12 está reservada el lunes.", "La sala 14 está reservada el lunes."],
    ["工单101已经修复。", "工单102已经修复。"],
    ["チケット101は修正済みです。", "チケット102は修正済みです。"],
    ["Alice owns billing.", "Alice owns search now."],
    ["The search service runs on Postgres.", "The billing service runs on MySQL now."],
    ["The budget of team red is 5000 euros.", "The budget of team blue is now 7000 euros."],
    ["The door code of hall A is 1234.", "The door code of hall B changed to 5678."],
    ["Paris office opens at 9.", "Oslo office opens at 10 now."],
    ["Ana leads search.", "Ana no longer leads billing."],
    ["Please call Ana on Monday.", "Actually, also call Ben on Monday."],
    ["Decided: team red owns billing.", "Decided: team blue owns search now."],
    ["Alex is vegetarian.", "Bob is not vegetarian."],
    ["Server A is up.", "Server B is up.", "Server C is not up."],
    ["Server A is up.", "Server B is up now."],
    ["Team red deploys on Friday.", "Actually team blue deploys on Friday."],
    ["Team red deploys on Friday.", "Team blue deploys on Monday instead of Friday."],
    ["The app ships on Friday.", "The Android app ships on Monday instead of Friday."],
    ["I'm allergic to nuts.", "I'm now allergic to eggs."],
    [
        "The backup of the billing service runs at two on host alpha.",
        "The backup of the old billing service runs at two on host alpha.",
    ],
    ["Is team red ready to launch on Friday?", "Is team blue ready to launch on Friday?"],
    ["Who leads search?", "Ana leads billing."],
    ["Is team red done?", "Team blue is done."],
    ["Ship it.", "Task A is done.", "Server B is up."],
    ["Kunde Acme zahlt monatlich.", "Kunde Globex zahlt jetzt jährlich."],
    ["Klara mag keine Pilze.", "Ben mag jetzt doch Pilze."],
    ["Le bureau de Lyon ouvre à 9 h.", "Le bureau de Lille ouvre maintenant à 10 h."],
    ["La oficina de Lima abre a las 9.", "La oficina de Quito abre ahora a las 10."],
    ["东区仓库下午四点截止。", "西区仓库改为下午六点截止。"],
    ["小李负责登录模块。", "小林现在负责登录模块。"],
    ["田中さんは菜食主義者です。", "鈴木さんは菜食主義者ではありません。"],
    ["入口のタイムアウトは15秒です。", "出口のタイムアウトは30秒ではなく60秒です。"],
]
REVERSED = [
    [
        "We decided B: deploy on Friday.",
        "I changed my mind: we deploy on Monday instead of Friday.",
    ],
    ["We will deploy on Friday.", "We decided to deploy on Monday, not Friday."],
    ["We will deploy on Friday.", "Not Friday, Monday."],
    ["I live in Rome", "Actually I moved to Oslo"],
    ["We decided A: keep the old search.", "We decided B instead."],
    ["Let's go with Postgres.", "Actually, let's go with MySQL."],
    ["We use Postgres for orders.", "We decided to use MySQL rather than Postgres."],
    ["The launch is on Friday.", "The launch moved from Friday to Monday."],
    ["The launch is on Friday.", "The launch is on Monday."],
    ["Wir deployen am Freitag.", "Nicht am Freitag, am Montag."],
    ["Das Treffen ist um 10 Uhr.", "Das Treffen ist um 11 Uhr."],
    ["The budget is 5000 euros.", "The budget is now 7000 euros."],
    ["Alex is vegetarian.", "Alex is not vegetarian."],
    ["Ana leads search.", "Ana no longer leads search."],
    ["Server A is up.", "Server A is not up."],
    ["We use Postgres for orders.", "Actually, we use MySQL for orders."],
    ["The meeting is at 10.", "The meeting was moved to 14:30."],
    ["Who leads search?", "Ana leads search."],
    ["Ana lebt in Köln.", "Ana lebt nicht mehr in Köln."],
    ["La réunion est lundi.", "La réunion est maintenant mardi."],
    ["La reunión es el lunes.", "La reunión es ahora el martes."],
    ["会議は金曜日です。", "会議は月曜日に変更になりました。"],
    ["Ich wohne in Köln.", "Ich bin nach Bonn gezogen."],
    ["Nous déployons vendredi.", "Finalement nous déployons lundi au lieu de vendredi."],
    ["Desplegamos el viernes.", "En realidad desplegamos el lunes, no el viernes."],
    ["我们周五部署。", "我改主意了：我们周一部署，而不是周五。"],
    ["会议在周五。", "会议在周一。"],
    ["デプロイは金曜日です。", "やっぱりデプロイは金曜日ではなく月曜日にします。"],
    ["東京に住んでいます。", "実は大阪に引っ越しました。"],
]
UNTOUCHED = "The zoo has 12 giraffes, says Eve (of ticket 7)."


async def test_what_differs_in_an_identifier_is_two_facts_and_a_reversal_leaves_one(
    made: Any,
) -> None:
    wrong = []
    for said in DISTINCT:
        lines = made(UNTOUCHED, *said).splitlines()
        wrong += [(text, lines) for text in (UNTOUCHED, *said) if f"- {text} (user)" not in lines]
    for old, new in REVERSED:
        board = made(UNTOUCHED, old, new)
        if board.count("\n- ") != 2 or f"{new} (user)" not in board or UNTOUCHED not in board:
            wrong.append((new, board.splitlines()))
    assert wrong == []


async def test_the_reversal_of_a_decision_is_a_decision_about_what_it_meant(made: Any) -> None:
    assert made("We will deploy on Friday.", "Friday lunch is at noon.", "Not Friday, Monday.") == (
        "## Decisions\n- We will deploy on Friday. Not Friday, Monday. (user)\n\n"
        "## Notes\n- Friday lunch is at noon. (user)"
    )


async def test_what_a_pasted_text_tells_reverses_nothing_that_the_user_said(made: Any) -> None:
    board = made("I live in Rome.", "Proofread this:\n```\nI live in Oslo.\n```")
    assert "I live in Rome." in board


async def test_two_clients_that_decide_at_once_both_have_all_their_decisions_on_the_board(
    opened: Opened,
) -> None:
    clients = [opened(attempts_max=20), opened(attempts_max=20)]

    async def decide(client: Door, name: str) -> None:
        for number in range(15):
            await note(client, f"We decided that item {name}{number} ships in week {number % 4}.")

    await asyncio.gather(
        *(decide(client, name) for client, name in zip(clients, "ab", strict=True))
    )
    board = await read(clients[0])
    said = [f"item {name}{number} " for name in "ab" for number in range(15)]
    assert [text for text in said if text not in board] == []


async def test_the_board_never_grows_beyond_its_limit_and_keeps_decisions_longest(
    made: Any, tokens: O200kCounter
) -> None:
    board = made("We decided that the project is called Zeppelin.", tokens_max=400)
    sizes = []
    for number in range(150):
        said = (
            f"In city number {number} somebody named Person{number} saw animal{number} and"
            f" plant{number}."
        )
        board = made(said, board=board, tokens_max=400)
        sizes.append(tokens.count(board))
    assert max(sizes) <= 400
    assert "Zeppelin" in board
    assert "Person149" in board
    assert "Person3 " not in board


async def test_the_same_again_changes_nothing(made: Any) -> None:
    board = made(
        "We decided to launch in March.",
        "Bob lives in Graz (Austria).",
        "Who pays?",
        "Please call Eve.",
    )
    assert made("We decided to launch in March.", board=board) == board
    assert made("", board=board) == board


async def test_a_board_that_a_model_wrote_is_gone_on_with(made: Any) -> None:
    board = (
        "# Trip\n\nAda and Bob go to Kyoto in May. They decided to take the"
        " train.\n\n**Open:**\n- Which hotel?\n"
    )
    found = made("Ada has the tickets.", board=board)
    for text in (
        "go to Kyoto in May.",
        "take the train.",
        "Which hotel?",
        "Ada has the tickets. (user)",
    ):
        assert text in found
    assert found.index("take the train") < found.index("Kyoto")


async def test_nothing_worth_a_line_leaves_the_board_as_it_is(opened: Opened) -> None:
    board = opened()
    await note(board, "ok", "hm", "...", "👍")
    found = await board("whiteboard_get", **WHO)
    assert (found["text"], found["made_by"]) == ("", "")
    await note(board, "We decided to launch in March.")
    before = await read(board)
    await note(board, "ok", "👍")
    assert await read(board) == before


async def test_long_and_strange_texts_are_survived(opened: Opened, tokens: O200kCounter) -> None:
    board = opened()
    for text in (
        "x" * 100_000,
        "決定" * 40_000,
        "a. " * 30_000,
        "\n- \n" * 20_000,
        "(((" * 9999,
        "We decided " * 9000,
    ):
        await note(board, text)
    assert tokens.count(await read(board)) <= 1500


async def test_a_board_tells_who_said_what_whatever_the_role_is_called(
    board: Door, opened: Opened
) -> None:
    del board
    door = opened()
    await door(
        "context_update",
        **WHO,
        entries=[entry("We decided to launch in March.", "bot (beta)\n## Tasks")],
    )
    assert (
        await read(door) == "## Decisions\n- We decided to launch in March. (bot [beta] ## Tasks)"
    )
    await note(door, "ok")
    assert (
        await read(door) == "## Decisions\n- We decided to launch in March. (bot [beta] ## Tasks)"
    )


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("Task: Tom prepares the slides.", "I finished the slides."),
        ("Task: Tom prepares the slides.", "The slides are done."),
        ("TODO: Bob writes the minutes.", "Done: minutes are written."),
        ("TODO: Bob writes the minutes.", "I wrote the minutes."),
        ("[ ] book the room", "[x] book the room"),
        ("Aufgabe: Bob bucht den Raum.", "Der Raum ist gebucht."),
        ("Aufgabe: Lieferant anrufen.", "Erledigt: Lieferant angerufen."),
    ],
)
async def test_done_task_is_no_task_any_more(made: Any, task: str, said: str) -> None:
    board = made(task, said)
    assert task not in board
    assert "## Tasks" not in board
    assert said in board


@pytest.mark.parametrize(
    "said",
    [
        "The slides are not done yet.",
        "When the slides are done, Lisa sends them.",
        "The slides must be done by Friday.",
        "Are the slides done?",
        "The invoices are done.",
        "The slides are almost done.",
        "The slides cannot be finished.",
        "No slides are finished.",
        "I want the slides done.",
    ],
)
async def test_task_stays_open_until_it_is_done(made: Any, said: str) -> None:
    assert "- Task: Tom prepares the slides. (user)" in made("Task: Tom prepares the slides.", said)


async def test_one_of_two_tasks_alike_is_not_taken_for_done(made: Any) -> None:
    board = made("Tom must draw the slides.", "Lisa must print the slides.", "The slides are done.")
    assert "Tom must draw" in board
    assert "Lisa must print" in board


async def test_lines_that_begin_with_a_name_are_of_that_speaker(made: Any) -> None:
    board = made(
        "Jonas: Agreed, 3 March. I will build the page.\nPriya: I write the text.\nTask: call Ann."
    )
    assert "- Agreed, 3 March. (Jonas)" in board
    assert "- I will build the page. (Jonas)" in board
    assert "- I write the text. (Priya)" in board
    assert "Task: call Ann. (Priya)" in board
    assert "- Decision: we use tea. (user)" in made("Decision: we use tea.")


async def test_topic_labels_and_text_behind_a_blank_line_are_of_no_other_speaker(
    made: Any,
) -> None:
    board = made("Frontend: React\nBackend: Go with PostgreSQL\nMonday: dentist")
    for line in ("Frontend: React", "Backend: Go with PostgreSQL", "Monday: dentist"):
        assert f"- {line} (user)" in board
    board = made("Jonas: Agreed. I take it.\n\nMy flight leaves on Friday.")
    assert "- I take it. (Jonas)" in board
    assert "- My flight leaves on Friday. (user)" in board


async def test_reason_of_a_change_does_not_keep_what_it_changes(made: Any) -> None:
    board = made(
        "Let's decide on the date: we launch on 3 March.",
        "The launch moves from 3 March to 17 March, because the cold store is late.",
    )
    assert "decide on the date" not in board
    assert "17 March" in board


async def test_board_says_that_older_entries_were_left_out(made: Any) -> None:
    said = [f"We decided that shop {number} opens at noon." for number in range(60)]
    assert LEFT_OUT_NOTE not in made(*said[:5])
    board = made("\n".join(said), tokens_max=500)
    assert board.endswith(f"\n\n{LEFT_OUT_NOTE}")
    later = made("My name is Ada.", board=board)
    assert later.count(LEFT_OUT_NOTE) == 1
    assert later.endswith(LEFT_OUT_NOTE)
