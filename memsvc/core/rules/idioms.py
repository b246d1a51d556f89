"""Words of home and family said of tools and trades: idioms that tell nothing of the person."""

import re
from typing import Final

from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.topics import NO_ALLERGEN

# fmt: off
# A pattern is a line of data, however long.

_HUMAN_WORD: Final = (
    r"(?:live|lives|living|lived|moved|moving|move|adopt\w*|marr(?:y|ied|ying)|wed(?:ded)?|divorc\w+|baby|babies|kids?|child|children|parents?|orphan\w*|zombies?|pregnant|vegan|vegetarian|diet|feed|feeding|fed|nurs(?:e|ing)|kill\w*|retir(?:e|ed|ing)|bur(?:y|ied)|birth|raised|dating|engaged|allergic|starv\w+|dying|died|widow\w*|home"
    r"|leb(?:e|t|en)|wohn(?:e|t|en)|umgezogen|umzieh\w+|zieh(?:e|en|t)|verheirat\w+|geheiratet|heirat\w+|geschieden|scheidung|kind(?:er|ern)?|eltern\w*|waisen?\w*|schwanger|füttere?n?|gefüttert|töten?|getötet|allergisch|adoptier\w*|geboren|rente|gestorben|sterben|stirbt"
    r"|vivo|vivimos|vive|viven|mudamos|mudé|mudado|mudar\w*|casad[oa]s?|casamos|casé|divorci\w+|bebé|hij[oa]s?|padres?|huérfan[oa]s?|zombis?|embarazad[oa]|dieta|alimento|alimentamos|mato|matar|alérgic[oa]|nació|murió"
    r"|vis|vit|vivons|habit(?:e|ent|ons)|déménag\w+|mariée?s?|marier|bébés?|enfants?|filles?|mère|orphelin\w*|enceinte|régime|nourri\w*|tuée?s?|tuer|allergique|né|née|mort)"
)
_TOOLS: Final = frozenset(["terminal", "shell", "vim", "emacs", "excel", "powerpoint", "jira", "slack", "outlook", "confluence", "kubernetes", "docker", "postgres", "postgresql", "mysql", "redis", "kafka", "terraform", "github", "gitlab", "git", "aws", "azure", "gcp", "typescript", "javascript", "python", "rust", "golang", "sprint", "sprints", "scrum", "kanban", "backlog", "repo", "repos", "monorepo", "microservice", "microservices", "microservicios", "api", "apis", "backend", "frontend", "database", "databases", "datenbank", "server", "servers", "serveur", "serveurs", "servidor", "servidores", "cluster", "clusters", "container", "containers", "conteneur", "conteneurs", "contenedor", "process", "processes", "processus", "proceso", "procesos", "prozess", "prozesse", "prozessen", "thread", "threads", "pod", "pods", "node", "nodes", "nœud", "nœuds", "nodo", "nodos", "knoten", "init", "kernel", "daemon", "pipeline", "pipelines", "prod", "production", "produktion", "producción", "staging", "deploy", "deployment", "merge", "commit", "commits", "dataset", "datasets", "labels", "dashboard", "spreadsheet", "spreadsheets", "deck", "slides", "slide", "architecture", "architektur", "arquitectura", "framework", "dependencies", "dependency", "monolith", "monolithe", "monolito", "div", "divs", "css", "html", "component", "components", "composant", "composants", "componente", "komponente", "callback", "callbacks", "cache", "proxy", "gateway", "vpc", "subnet", "nat", "lambda", "queue", "mutex", "commandline", "tmux", "regex", "yaml", "json", "csv", "elternelement", "parser", "compiler", "subprocess", "localhost", "boilerplate"])
_WORK: Final = (
    r"(?:project(?! manager| lead)|plan|roadmap|deadline|code|codebase|spreadsheet|laptop|startup|company|office|vendor|stack|contract|idea|design|hypothesis|aws|azure"
    r"|projekt|beruf|firma|büro|idee|proyecto|trabajo|oficina|empresa|projet|boulot|travail|bureau|boîte)"
)
_BETWEEN: Final = r"(?: (?!(?:and|but|so|while|who|because|und|aber|y|pero|et|mais)\b)[\w'’./-]+){0,4}? "
_PHRASE: Final = quick_pattern(
    rf"\b(?:married|wedded|verheiratet|casad[oa]|mariée?)\b (?:to|mit|con|avec|à) (?:[\w'’]+ )?{_WORK}\b|\bmit (?:[\w'’]+ )?{_WORK} (?:\w+ )?verheiratet\b"
    rf"|\b(?:the|this|that|dieses|este|esta|ce|cette) [\w-]+ (?:is|was|ist|es|est) (?:basically |just |kind of |quasi )?(?:my|our|mein|unser|mi|mon|notre) (?:baby|bébé|bebé|kind|child|firstborn)\b"
    r"|\b(?:my|our|mein|unser|mi|mon|notre) (?:baby|bébé|bebé)\b.{0,30}\b(?:live|shipped|launched|deployed|online|produktiv|en ligne|en línea)\b"
    r"|\b(?:diet|diät|dieta|régime) (?:of|aus|de) (?:pure |reine )?(?:pull requests?|prs|meetings|reunions?|reuniones|réunions|emails?|e-mails|deadlines|tickets|stress|bugs)\b"
    r"|\b(?:vegan|organic|halal|kosher|celibate|sober) when it comes to\b|\bpregnant with (?:ideas|meaning|possibilit\w+|expectation)|\b(?:organic|vegan)\b.{0,12}\b(?:growth|traffic|reach)\b|\b(?:growth|traffic|reach) is (?:all |purely )?organic\b"
)
_MOCK_ALLERGY: Final = quick_pattern(
    rf"\b(?:allergic to|allergisch (?:auf|gegen)|alérgic[oa]s? (?:al?|a l[ao]s?)|allergiques? (?:à la|à l'|à|aux?)) ?{NO_ALLERGEN}"
    r"|对(?:周报|日报|表格|早起|考试|形式主义|废话|批评|会议|开会|上班|加班|周一|学习|工作|数学|运动|早会)[^，。]{0,3}过敏"
    r"|\b(?:rash|hives|spots|itch\w*|ausschlag|pickel|sarpullido|urticaria|ronchas|urticaire|boutons|plaques)\b.{0,30}\b(?:at|bei|con|à|de) (?:the |dem |der |la |el |l'|sólo |solo )?(?:mere |very |bloßen |simple |seule )?(?:thought|idea|mention|sight|word|sound|gedanken?|wort|idee|pensar|idea|palabra|oír|idée|mot|pensée)"
    r"|\b(?:pensar|gedanke|idée|thought|idea|mention|word|sight)\b.{0,60}\b(?:rash|hives|ausschlag|pickel|sarpullido|urticaria|ronchas|urticaire|boutons)\b"
)
_CJK: Final = quick_pattern(
    r"(?:住在?|搬(?:到|去|进)|嫁给了?|娶了?|离婚|结婚|孩子|儿子|女儿|父亲|父组件|母亲|爸|妈|孤儿|僵尸|怀孕|收养|领养|喂|养|过敏|杀|生了)[^，,。、；]{0,14}(?:终端|命令行|进程|线程|容器|集群|节点|服务器|数据库|组件|代码|项目|上线|分支|框架|架构|微服务|模型|表格|周报|excel|kubernetes|docker|jira|生命周期|接口|缓存|流水线)"
    r"|(?:终端|进程|线程|容器|集群|节点|服务器|数据库|组件|代码|分支|框架|模型|excel|kubernetes|docker|jira)[^，,。、；]{0,12}(?:父亲|孩子|儿子|孤儿|僵尸|过敏|结婚|离婚|杀掉|养|喂)"
    r"|(?:住|引っ越|嫁|婿|結婚|離婚|子ども|子供|うちの子|親|孤児|ゾンビ|妊娠|餌|飼|アレルギー|殺|里子)[^，,。、；]{0,14}(?:プロセス|スレッド|コンテナ|クラスタ|ノード|サーバ|データベース|コンポーネント|コード|プロジェクト|本番|ブランチ|フレームワーク|アーキテクチャ|モデル|excel|エクセル|kubernetes|docker|jira|ターミナル|キャッシュ)"
    r"|(?:プロセス|スレッド|コンテナ|ノード|サーバ|データベース|コンポーネント|コード|プロジェクト|本番|モデル|excel|エクセル|kubernetes|docker|jira|ターミナル|会議|残業|月曜)[^，,。、；]{0,8}(?:に住|と結婚|に引っ越|に嫁|が恋人|アレルギー|を飼|を殺|育ち)"
)
_WORK_ISSUE: Final = quick_pattern(
    r"\b(?:in |on )?bed (?:one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}) (?:is|has|needs|was|and|wants)\b|\b\d{1,3}[- ]?(?:yo|y/o|year[- ]old)s? (?:with|presenting|in|post|on|male|female)\b|^(?:got|have|i've got|i have|i got) (?:a|an) \w+ (?:choking|dying|hanging|leaking|crashing|looping|segfaulting|failing|refusing|stuck|bleeding|blocking)\b|\b(?:my|our|the) (?:\w+ )?(?:dough|sourdough|starter|roux|sauce|custard|meringue|batter|brine|crust|caramel|ganache|hollandaise|mayo|souffl[eé]|stock|grout|slab|screed|rebar|footing|rafters?|joists?|mortar|weld|bishop|rook|knight|queen|king|pawn|stop-?loss|gamma|theta|delta|year (?:\d{1,2}|nine|ten|seven|eight|eleven)s?|plaintiff|defendant|understudy|striker|keeper|backhand|serve)\b (?:\w+ )?(?:keeps?|won't|is|has|have|are|isn't|splits?|broke|died|dies|seized|separates?|collapsed|went|gets?|just|still|never|always|cracks?|withdrew|hangs|'s)\b|\bi (?:braise|proof|prove|temper|fold|blanch|deglaze|sear|reduce|cream|knead|weld|solder|sand|prime|grout|shim|plumb) (?:my|the|it)\b|\b(?:i'm|i am|we're) (?:short|long|flat|underwater) (?:on |the |gamma|vol|theta|vega|delta|\w+ into)|\bmemory leak\b|\bso to speak\b"
)
_WORK_ISSUE_WORDS: Final = frozenset("""
    bed yo old got choking memory speak dough sourdough starter roux sauce custard meringue batter brine crust caramel ganache hollandaise mayo souffle soufflé stock grout slab screed rebar footing rafter rafters joist joists mortar weld
    bishop rook knight queen king pawn gamma theta delta year plaintiff defendant understudy striker keeper backhand serve stoploss stop braise proof prove temper fold blanch deglaze sear reduce cream knead solder sand prime shim plumb short long flat underwater
""".split())  # noqa: SIM905
_SARCASM: Final = quick_pattern(
    r"^(?:ok,? |okay,? |hey,? |so,? )*(?:let's|lets|let us|we could|shall we|can we|wanna|want to) (?:play|role-?play|do a scene|improvise|pretend|act)\b|^(?:you be|you'll be|you play|i'll be|i'll play|i play|i'm playing|i am playing) (?:the|my|a|an)\b|\byou're (?:my|the|a|an) [\w ]{2,30}[.!]? (?:you start|go\b|action|begin)|\bin character\b|^(?:wow|oh|cool|great|lovely|brilliant|fantastic|yay|super|well),? .{0,80}\b(?:i (?:so|just|really|do|absolutely|totally) (?:enjoy|love|adore|live)|my favou?rite:)|^(?:wow|cool|great|lovely|brilliant|fantastic|yay|super|wonderful|awesome|nice|perfect)[,.!] .{0,60}\b(?:cancel\w*|delay\w*|broke\w*|crash\w*|again|queue|traffic|rain\w*|late|down|failed|lost|leak\w*)\b.{0,40}\bi (?:love|adore|enjoy|live)\b|\b(?:nothing|no greater \w+|not much|few things) (?:i|we|i'd) (?:adore|love|like|enjoy|treasure|cherish|rather do)\b|\b(?:adore|love|enjoy|like)s? (?:it )?more than (?:being|waiting|having|getting|sitting|spending|standing|filling|paying|listening|working|queu\w+|a good \w+ (?:meeting|queue))|\bi just totally\b|\b(?:because|as|since) i (?:totally|clearly|obviously) (?:have|love|need|enjoy|want)\b|\bmy heart (?:soars|sings|leaps)\b"
)
_SARCASM_WORDS: Final = frozenset("""
    play let's lets pretend act scene improvise roleplay playing be you're character wow oh cool great lovely brilliant fantastic yay super well wonderful awesome nice perfect adore love enjoy like cherish treasure totally clearly obviously soars sings leaps nothing
""".split())  # noqa: SIM905
_PHRASE_WORDS: Final = frozenset("""
    married wedded verheiratet casado casada marié mariée mit baby bébé bebé kind child firstborn diet diät dieta régime vegan organic halal kosher celibate sober pregnant growth traffic reach
    allergic allergisch alérgico alérgica allergique thought idea mention sight word gedanke gedanken pensar idée rash hives ausschlag sarpullido urticaria urticaire boutons
""".split())  # noqa: SIM905
"""Words of which the figures of speech below have one, in scripts with spaces."""
# fmt: on
_CJK_CHARACTER: Final = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
_TOOL_PHRASE: Final = quick_pattern(
    rf"(?<![\w-]){_HUMAN_WORD}\b{_BETWEEN}(?:{'|'.join(sorted(_TOOLS))})\b"
    rf"|\b(?:{'|'.join(sorted(_TOOLS))})\b{_BETWEEN}{_HUMAN_WORD}\b"
)


def is_idiom(sentence: str, words: set[str]) -> bool:
    """Return whether a sentence, in lower case, only seems to tell something of the person.

    It says of a tool or trade what one says of people, plays a part, or mocks."""
    if not words.isdisjoint(_TOOLS) and _TOOL_PHRASE.search(sentence):
        return True
    if not words.isdisjoint(_SARCASM_WORDS) and _SARCASM.search(sentence):
        return True
    if not words.isdisjoint(_PHRASE_WORDS):
        return any(pattern.search(sentence) for pattern in (_PHRASE, _MOCK_ALLERGY))
    return _CJK_CHARACTER.search(sentence) is not None and any(
        pattern.search(sentence) for pattern in (_CJK, _MOCK_ALLERGY)
    )


def is_work_issue(sentence: str, words: set[str]) -> bool:
    """Return whether an English sentence is about a piece of work at hand, not about the person."""
    return not words.isdisjoint(_WORK_ISSUE_WORDS) and _WORK_ISSUE.search(sentence) is not None
