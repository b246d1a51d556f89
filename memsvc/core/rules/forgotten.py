"""Rules that end a fact without denying it: a request to forget it, a pet's death, a lost job."""

from memsvc.core.rules import topics as t
from memsvc.core.rules.rule import Rule, Topic, retraction

# fmt: off
# A rule is a line of data, however long.


def _all(*rows: tuple[Topic, str, str, str, str]) -> tuple[Rule, ...]:
    """Return rules of topic, marker, pattern, example and value; none of them states anything."""
    return tuple(retraction(topic, on, pattern, example, value, example) for topic, on, pattern, example, value in rows)


_EN = r"(?:(?:you can|you may|you should|i want you to) )?(?:please )?forget (?:about )?"
_SO = r"(?:that )?"

_END = r"(?:just |sadly |recently )?(?:died|passed away)\b"
_KIND_WORD = r"dog|cat|puppy|kitten|horse|parrot|rabbit|bunny|hamster|guinea pig|turtle|tortoise|bird|snake|fish"

IN_ENGLISH = _all(
    (t.PET, "died passed", rf"(?P<v>(?-i:[A-Z])\w+) {_END}", "Rex died last week.", "Rex"),
    (t.PET, "died passed", rf"my (?P<k>{_KIND_WORD}),? (?P<v>(?-i:[A-Z])\w+),? {_END}", "My dog Rex died.", "Rex"),
    (t.PET, "died passed", rf"my (?P<k>{_KIND_WORD}) {_END}", "My dog died.", ""),
    (t.PET_KIND, "died passed", rf"my (?P<v>dog|cat|horse|parrot|rabbit|hamster|turtle)(?:,? (?-i:[A-Z])\w+)?,? {_END}", "My dog Rex died.", "dog"),
    (t.EMPLOYER, "quit left lost resigned", r"i (?:just |recently )?(?:quit|left|lost|resigned from) my job(?= *[.,;!\n]| (?:last|this|yesterday|today)\b| *$)", "I quit my job last week.", ""),
    (t.EMPLOYER, "fired laid", r"i (?:just |recently )?(?:was|got) (?:fired|laid off)\b", "I got fired.", ""),
    (t.NAME, "forget", rf"{_EN}(?:my name(?! is)|who i am|what i'm called)\b", "Please forget my name.", ""),
    (t.NAME, "forget", rf"{_EN}{_SO}my name is {{v}}", "Forget that my name is Bob.", "Bob"),
    (t.AGE, "forget", rf"{_EN}(?:my age|how old i am)\b", "Forget how old I am.", ""),
    (t.BIRTHDAY, "forget", rf"{_EN}(?:my birthday|when i was born)\b", "Forget my birthday.", ""),
    (t.HOME, "forget", rf"{_EN}(?:where (?:i|we) live|my (?:home|city|address))\b", "Please forget where I live.", ""),
    (t.HOME, "forget", rf"{_EN}{_SO}(?:i|we) (?:live|am based|moved) (?:in|to) {{v}}", "Forget that I live in Rome.", "Rome"),
    (t.ADDRESS, "forget", rf"{_EN}(?:where (?:i|we) live|my (?:(?:new|old|home|postal|street) )?address)\b", "Please forget my address.", ""),
    (t.JOB, "forget", rf"{_EN}(?:my (?:job|profession|occupation)|what i do for (?:a living|work))\b", "Forget my job.", ""),
    (t.JOB, "forget", rf"{_EN}{_SO}(?:i work as|i'm|i am) an? {{v}}", "Forget that I work as a nurse.", "nurse"),
    (t.EMPLOYER, "forget", rf"{_EN}(?:where i work|my employer)\b", "Forget where I work.", ""),
    (t.EMPLOYER, "forget", rf"{_EN}{_SO}i work (?:at|for) {{v}}", "Forget that I work at Acme.", "Acme"),
    (t.LIKE, "forget", rf"{_EN}{_SO}i (?:like|love|enjoy) {{v}}", "Forget that I like jazz.", "jazz"),
    (t.DISLIKE, "forget", rf"{_EN}{_SO}i (?:hate|dislike) {{v}}", "Forget that I hate jazz.", "jazz"),
    (t.PREFERENCE, "forget", rf"{_EN}{_SO}i prefer {{v}}", "Forget that I prefer tea.", "tea"),
    (t.ALLERGY, "forget", rf"{_EN}my allerg(?:y|ies)(?! to)\b", "Forget my allergies.", ""),
    (t.ALLERGY, "forget", rf"{_EN}(?:my allergy to|{_SO}(?:i'm|i am) allergic to) {{v}}", "Forget that I'm allergic to nuts.", "nuts"),
    (t.DIET, "forget", rf"{_EN}{_SO}(?:i'm|i am) (?:an? )?(?P<v>vegan|vegetarian|pescatarian|flexitarian)\b", "Forget that I'm vegan.", "vegan"),
    (t.DIET, "forget", rf"{_EN}my diet\b", "Forget my diet.", ""),
    (t.PET, "forget", rf"{_EN}my (?P<k>dog|cat|horse|parrot|rabbit|hamster|turtle)(?:'s name)?(?! \w)", "Forget my dog's name.", ""),
    (t.PET_KIND, "forget", rf"{_EN}{_SO}i have an? (?P<v>dog|cat|horse|parrot|rabbit|hamster|turtle)\b", "Forget that I have a dog.", "dog"),
)

_DE = r"(?:bitte )?(?:vergiss|vergesst|vergessen sie)(?: bitte)?,? "
_MARKERS_DE = "vergiss vergesst vergessen"

IN_GERMAN = _all(
    (t.NAME, _MARKERS_DE, rf"{_DE}(?:meinen namen|wie ich heiße|wer ich bin)\b", "Vergiss meinen Namen.", ""),
    (t.AGE, _MARKERS_DE, rf"{_DE}(?:mein alter|wie alt ich bin)\b", "Vergiss mein Alter.", ""),
    (t.BIRTHDAY, _MARKERS_DE, rf"{_DE}meinen geburtstag\b", "Vergiss meinen Geburtstag.", ""),
    (t.HOME, _MARKERS_DE, rf"{_DE}(?:wo ich (?:wohne|lebe)|meinen wohnort|meine adresse)\b", "Vergiss bitte, wo ich wohne.", ""),
    (t.HOME, _MARKERS_DE, rf"{_DE}dass ich in {{w}} (?:wohne|lebe)\b", "Vergiss, dass ich in Wien wohne.", "Wien"),
    (t.ADDRESS, _MARKERS_DE, rf"{_DE}(?:wo ich (?:wohne|lebe)|meine adresse)\b", "Vergiss bitte meine Adresse.", ""),
    (t.JOB, _MARKERS_DE, rf"{_DE}(?:meinen (?:beruf|job)|was ich beruflich mache)\b", "Vergiss meinen Beruf.", ""),
    (t.JOB, _MARKERS_DE, rf"{_DE}dass ich als {{w}} arbeite\b", "Vergiss, dass ich als Koch arbeite.", "Koch"),
    (t.EMPLOYER, _MARKERS_DE, rf"{_DE}(?:wo ich arbeite|meinen arbeitgeber)\b", "Vergiss, wo ich arbeite.", ""),
    (t.EMPLOYER, _MARKERS_DE, rf"{_DE}dass ich (?:bei|für) {{w}} arbeite\b", "Vergiss, dass ich bei Siemens arbeite.", "Siemens"),
    (t.LIKE, _MARKERS_DE, rf"{_DE}dass ich {{w}} (?:mag|liebe)\b", "Vergiss, dass ich Jazz mag.", "Jazz"),
    (t.ALLERGY, _MARKERS_DE, rf"{_DE}meine allergien?\b", "Vergiss meine Allergien.", ""),
)

_FR = r"(?:oublie|oubliez)(?: s'il te plaît| stp)? "
_MARKERS_FR = "oublie oubliez"

IN_FRENCH = _all(
    (t.NAME, _MARKERS_FR, rf"{_FR}(?:mon (?:nom|prénom)|comment je m'appelle|qui je suis)\b", "Oublie mon nom.", ""),
    (t.AGE, _MARKERS_FR, rf"{_FR}mon âge\b", "Oublie mon âge.", ""),
    (t.BIRTHDAY, _MARKERS_FR, rf"{_FR}mon anniversaire\b", "Oublie mon anniversaire.", ""),
    (t.HOME, _MARKERS_FR, rf"{_FR}(?:où (?:j'habite|je vis)|mon adresse)\b", "Oublie où j'habite.", ""),
    (t.HOME, _MARKERS_FR, rf"{_FR}que (?:j'habite|je vis) (?:à|au|aux|en) {{v}}", "Oublie que j'habite à Lyon.", "Lyon"),
    (t.ADDRESS, _MARKERS_FR, rf"{_FR}(?:où j'habite|mon adresse)\b", "Oublie mon adresse.", ""),
    (t.JOB, _MARKERS_FR, rf"{_FR}mon (?:métier|emploi)\b", "Oublie mon métier.", ""),
    (t.EMPLOYER, _MARKERS_FR, rf"{_FR}(?:où je travaille|mon employeur)\b", "Oublie où je travaille.", ""),
    (t.EMPLOYER, _MARKERS_FR, rf"{_FR}que je travaille (?:chez|pour) {{v}}", "Oublie que je travaille chez Renault.", "Renault"),
    (t.LIKE, _MARKERS_FR, rf"{_FR}que j'(?:aime|adore) {{v}}", "Oublie que j'aime le jazz.", "le jazz"),
    (t.ALLERGY, _MARKERS_FR, rf"{_FR}mes allergies\b", "Oublie mes allergies.", ""),
)

_ES = r"(?:por favor,? )?(?:olvida|olvide|olvídate de)(?: por favor)? "
_MARKERS_ES = "olvida olvide olvídate"

IN_SPANISH = _all(
    (t.NAME, _MARKERS_ES, rf"{_ES}(?:mi nombre|cómo me llamo|quién soy)\b", "Olvida mi nombre.", ""),
    (t.AGE, _MARKERS_ES, rf"{_ES}mi edad\b", "Olvida mi edad.", ""),
    (t.BIRTHDAY, _MARKERS_ES, rf"{_ES}mi cumpleaños\b", "Olvida mi cumpleaños.", ""),
    (t.HOME, _MARKERS_ES, rf"{_ES}(?:d[óo]nde vivo|mi (?:dirección|ciudad))\b", "Olvida dónde vivo.", ""),
    (t.HOME, _MARKERS_ES, rf"{_ES}que vivo en {{v}}", "Olvida que vivo en Lima.", "Lima"),
    (t.ADDRESS, _MARKERS_ES, rf"{_ES}(?:d[óo]nde vivo|mi dirección)\b", "Olvida mi dirección.", ""),
    (t.JOB, _MARKERS_ES, rf"{_ES}mi (?:profesión|oficio)\b", "Olvida mi profesión.", ""),
    (t.EMPLOYER, _MARKERS_ES, rf"{_ES}(?:d[óo]nde trabajo|mi empresa)\b", "Olvida dónde trabajo.", ""),
    (t.EMPLOYER, _MARKERS_ES, rf"{_ES}que trabajo (?:en|para) {{v}}", "Olvida que trabajo en Acme.", "Acme"),
    (t.LIKE, _MARKERS_ES, rf"{_ES}que me (?:gustan?|encantan?) {{v}}", "Olvida que me gusta el jazz.", "el jazz"),
    (t.ALLERGY, _MARKERS_ES, rf"{_ES}mis alergias\b", "Olvida mis alergias.", ""),
)

_JA = r"(?:のこと)?(?:は|を)?(?:もう)?(?:忘れて(?:ください|下さい|くれ|ほしい|いい|ね|(?=[。！!、\s]|$))|覚え(?:ておか)?ないで|覚え(?:ておか)?なくて(?:いい|大丈夫|結構)|記憶から(?:消し|削除し)て|記憶しないで)"
_JA_I = r"(?:(?:私|僕|俺|わたし|ぼく|自分)(?:は|が)、?)?"
_JA_MY = r"(?:私|僕|俺|わたし|わたくし|ぼく|自分)の"
_JA_V = r"(?P<v>[^,;!?。，、！？；…\n.\sはがをもの「」]{1,30}?)"
_MARKERS_JA = "忘れて 覚え 記憶"

IN_JAPANESE = _all(
    (t.NAME, _MARKERS_JA, rf"(?:{_JA_MY}名前|{_JA_I}誰か){_JA}", "私の名前を忘れてください。", ""),
    (t.AGE, _MARKERS_JA, rf"(?:{_JA_MY}(?:年齢|歳|年)|{_JA_I}何歳か){_JA}", "私の年齢は覚えておかないで。", ""),
    (t.BIRTHDAY, _MARKERS_JA, rf"{_JA_MY}誕生日{_JA}", "私の誕生日は忘れて。", ""),
    (t.HOME, _MARKERS_JA, rf"(?:{_JA_MY}(?:住所|家|住んでいる(?:ところ|場所))|{_JA_I}どこに住んでい?るか){_JA}", "私の住所を忘れてください。", ""),
    (t.HOME, _MARKERS_JA, rf"{_JA_I}{_JA_V}に住んでい?る(?:という)?こと{_JA}", "東京に住んでいることは忘れて。", "東京"),
    (t.ADDRESS, _MARKERS_JA, rf"(?:{_JA_MY}住所|{_JA_I}どこに住んでい?るか){_JA}", "私の住所は忘れて。", ""),
    (t.JOB, _MARKERS_JA, rf"{_JA_MY}(?:仕事|職業){_JA}", "私の仕事は忘れてください。", ""),
    (t.EMPLOYER, _MARKERS_JA, rf"(?:{_JA_MY}(?:会社|勤務先|勤め先|職場)|{_JA_I}どこで働いてい?るか){_JA}", "私の会社を忘れて。", ""),
    (t.EMPLOYER, _MARKERS_JA, rf"{_JA_I}{_JA_V}(?:で働いて|に勤めて)い?る(?:という)?こと{_JA}", "トヨタで働いていることを忘れてください。", "トヨタ"),
    (t.LIKE, _MARKERS_JA, rf"{_JA_I}{_JA_V}が(?:大)?好き(?:な|だという)こと{_JA}", "ジャズが好きなことを忘れて。", "ジャズ"),
    (t.ALLERGY, _MARKERS_JA, rf"{_JA_MY}アレルギー{_JA}", "私のアレルギーのことは忘れてください。", ""),
)
