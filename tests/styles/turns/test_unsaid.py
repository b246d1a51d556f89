"""What is no statement of the user's about the user: questions, conditions, denials, other people's
words, secrets."""

import pytest

from memsvc.core.facts import Statement
from tests.styles.turns.test_rules import claims, ended, stated

# A request to remember ("Vergiss nicht, dass ...") is a statement: test_memory_requests.py.
UNSAID = """
Do I live in Paris?
Is my name Bob?
Am I allergic to nuts?
If I lived in Paris, I would be happy.
If I live in Paris next year, I'll call you.
Imagine I live in Paris.
Suppose my name is Bob.
Let's say I am a vegetarian.
Would I like jazz?
She said 'my name is Bob'.
She said "I live in Paris".
He told me my name is Bob.
My friend says I like jazz.
My friend likes jazz.
Her dog is called Rex.
"I live in Paris" is a song.
> I live in Paris
Alice: I live in Paris.
User: my name is Bob
SYSTEM: my name is Bob
Translate: I live in Paris.
Pretend that I'm a vegetarian.
In the story I live in Paris.
I live in Paris, she said.
My name is Bob, he said.
I wish I lived in Paris.
What if my dog is called Rex?
You live in Paris.
We would like a table.
Why do I like jazz?
When did I say I like jazz?
Write a poem where I live in Paris.
I never said I like jazz.
I prefer not to say.
My name is hard to spell.
I forget my name.
Don't forget my name.
I'll never forget where I live.
She asked me to forget my name.
They live in Rome and work at Arup.
No wait, I meant Milan.
`my name is Bob`
```my name is Bob```
<note>my name is Bob</note>
Wohne ich in Wien?
Wenn ich in Wien wohne, freue ich mich.
Sie sagte, ich mag Jazz.
Er sagte: "Ich heiße Bob."
Angenommen, ich heiße Bob.
Mein Freund mag Jazz.
Sein Hund heißt Rex.
„Ich wohne in Wien“ ist ein Lied.
Est-ce que j'habite à Lyon ?
Si j'habite à Lyon, je suis content.
Elle a dit « je m'appelle Bob ».
Imagine que je m'appelle Bob.
Mon ami aime le jazz.
Il dit que j'aime le jazz.
¿Vivo en Lima?
Si vivo en Lima, soy feliz.
Ella dijo: "me llamo Bob".
Imagina que me llamo Bob.
Mi amigo vive en Lima.
我住在上海吗？
如果我住在上海就好了。
她说“我叫小明”。
他说我喜欢爵士乐。
我朋友住在上海。
假如我对花生过敏怎么办？
東京に住んでいますか？
もし東京に住んでいたら幸せです。
彼女は「私の名前は太郎です」と言った。
友達はジャズが好きです。
友達がいます。名前は太郎です。
他有一只狗。名字叫旺财。
ジャズは好きですか？
私の名前を忘れないでください。
私の誕生日を忘れてしまいました。
彼女の名前は忘れてください。
""".strip().splitlines()

TOLD_AS_SAID = """
My brother is allergic to nuts.
I live with people who live in Rome and work at Arup.
I have no dog.
Ich lese gern.
Ich esse gerne in Restaurants.
母はナッツのアレルギーがあります。
妻の好きな色は青です。
""".strip().splitlines()

DENIED = [
    ("I am not a vegetarian.", "user_diet", "vegetarian"),
    ("I don't live in Paris.", "user_home", "Paris"),
    ("I'm not allergic to nuts.", "user_allergy", "nuts"),
    ("I no longer work at Acme.", "user_employer", "Acme"),
    ("I stopped taking metformin.", "user_medication", "metformin"),
    ("Forget that I like jazz.", "user_like", "jazz"),
    ("Forget that I live in Rome.", "user_home", "Rome"),
    ("Please forget where I live.", "user_home", ""),
    ("You can forget my name now.", "user_name", ""),
    ("I quit my job at Shell.", "user_employer", "Shell"),
    ("I've just left Shell last month.", "user_employer", "Shell"),
    ("Rex died last week.", "user_pet", "Rex"),
    ("Vergiss, dass ich in Rom wohne.", "user_home", "Rom"),
    ("Oublie où j'habite.", "user_home", ""),
    ("Olvida que vivo en Roma.", "user_home", "Roma"),
    ("Ich bin kein Vegetarier.", "user_diet", "Vegetarier"),
    ("Ich wohne nicht mehr in Wien.", "user_home", "Wien"),
    ("Je n'habite plus à Lyon.", "user_home", "Lyon"),
    ("Je ne suis pas végétarienne.", "user_diet", "végétarienne"),
    ("Ya no vivo en Lima.", "user_home", "Lima"),
    ("No soy vegetariana.", "user_diet", "vegetariana"),
    ("我不住在上海。", "user_home", "上海"),
    ("我不是素食主义者。", "user_diet", "素食主义者"),
    ("東京に住んでいません。", "user_home", "東京"),
    ("私の名前は覚えておかないでください。", "user_name", ""),
    ("私が東京に住んでいることは忘れてください。", "user_home", "東京"),
    ("トヨタで働いていることを忘れてください。", "user_employer", "トヨタ"),
    ("ジャズが好きなことは覚えておかないで。", "user_like", "ジャズ"),
    ("僕がどこに住んでいるか忘れて", "user_home", ""),
    ("ジャズが好きだということを忘れてください。", "user_like", "ジャズ"),
    ("ベジタリアンではありません。", "user_diet", "ベジタリアン"),
]

SECRETS = """
My name is sk-proj-abcdefghijklmnop1234567890
I prefer the password hunter2
I prefer ghp_16C7e42F292c6912E7710c838347Ae178B4a
I like my API key to be AKIAIOSFODNN7EXAMPLE
My phone number is 4111 1111 1111 1111
My favourite password is swordfish
My favorite pin is 1234
My favourite token is eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N
Today I need the card 5500 0000 0000 0004
Today I need xoxb-123456789012-abcdefghijklmnop
This week I need postgres://ada:hunter2@db.example.org/prod
Remind me to use password hunter2 tomorrow
Remind me to change my PIN tomorrow
Always use api key 123abc for calls
I live in DE89 3704 0044 0532 0130 00
My editor is glpat-ABCDEFGHIJKLMNOPQRST
My goal is to keep my SSN 078-05-1120 safe
I like Xk93jdMMw02ldkQpz81 a lot
Mein Lieblingspasswort ist geheim
Ich bevorzuge das Passwort geheim
Je préfère le mot de passe secret
Prefiero la contraseña secreta
我更喜欢密码123456
今日はパスワードが必要です
""".strip().splitlines()


@pytest.mark.parametrize("text", UNSAID)
def test_what_is_asked_supposed_or_somebody_elses_is_no_fact_about_the_user(text: str) -> None:
    assert claims(text) == []


def test_what_is_true_of_relatives_or_in_general_is_told_as_said_in_no_class_of_the_user() -> None:
    expected = {text: [("user_statement", text)] for text in TOLD_AS_SAID}
    found = {
        text: [
            (claim.fact_id, claim.told) for claim in claims(text) if isinstance(claim, Statement)
        ]
        for text in TOLD_AS_SAID
    }
    assert found == expected


@pytest.mark.parametrize(("text", "fact_id", "value"), DENIED)
def test_a_denial_takes_back_and_never_states(text: str, fact_id: str, value: str) -> None:
    assert stated(text) == []
    assert (fact_id, value) in ended(text)


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_becomes_a_fact(text: str) -> None:
    assert [one.value for one in claims(text) if isinstance(one, Statement)] == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("我叫王小明。我住在上海。", "王小明"),
        ("我喜欢爵士乐，也喜欢茶！", "爵士乐"),
        ("My name’s Zoë.", "Zoë"),
        ("My name is Zoe\u0308", "Zoë"),
        ("My na\u200bme is \u202eAda\u202c", "Ada"),
        ("I live in New\u00a0York and I work a lot", "New York"),
        ("MY DOG IS CALLED McRex", "McRex"),
    ],
)
def test_a_value_keeps_its_case_and_ends_where_its_script_ends_it(text: str, value: str) -> None:
    assert value in [one for _, one in stated(text)]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "My name is Mira Castellano and I live in Lisbon",
            [("user_name", "Mira Castellano"), ("user_home", "Lisbon")],
        ),
        ("My name is Bob and I am a baker", [("user_name", "Bob"), ("user_job", "baker")]),
        ("My name is Mira but call me Mi", [("user_name", "Mira"), ("user_nickname", "Mi")]),
        ("my name is spelled Myra, not Mira", [("user_name", "Myra")]),
        ("My name is Ada because of Lovelace", [("user_name", "Ada")]),
        ("My name is Ada and my dog is called Rex", [("user_name", "Ada"), ("user_pet", "Rex")]),
        ("I work as a nurse and love hiking", [("user_job", "nurse")]),
        ("I live in Rome and work at Arup", [("user_home", "Rome"), ("user_employer", "Arup")]),
        ("I like tea and cake", [("user_like", "tea and cake")]),
        ("I like tea and I like cake", [("user_like", "tea"), ("user_like", "cake")]),
        ("I work at Marks and Spencer", [("user_employer", "Marks and Spencer")]),
        (
            "I'm Tom, I live in Leeds and work at Arup",
            [("user_name", "Tom"), ("user_home", "Leeds"), ("user_employer", "Arup")],
        ),
        ("I'm German, I live in Leeds", [("user_home", "Leeds")]),
        ("I have a dog.", [("user_pet_kind", "dog")]),
        ("犬を飼っています。名前はポチです。", [("user_pet", "ポチ")]),
        ("はじめまして。名前は花子です。", [("user_name", "花子")]),
        ("我有一只狗。名字叫旺财。我叫李雷。", [("user_pet", "旺财"), ("user_name", "李雷")]),
    ],
)
def test_a_value_leaves_the_next_clause_to_the_next_fact(
    text: str, facts: list[tuple[str, str]]
) -> None:
    assert stated(text) == facts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Remind me to call Dr. Osei on Friday. Then rest.", "call Dr. Osei on Friday"),
        ("My wife is called Dr. Osei.", "Dr. Osei"),
        ("I live in St. Louis. It rains.", "St. Louis"),
        ("I like big dogs e.g. collies. Really.", "big dogs e.g. collies"),
        ("Ich wohne in St. Gallen. Hier regnet es.", "St. Gallen"),
        ("I live on Baker St. My dog is called Rex.", "Rex"),
    ],
)
def test_a_value_does_not_end_at_an_abbreviation(text: str, value: str) -> None:
    assert [one for _, one in stated(text)] == [value]
