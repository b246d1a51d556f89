"""Words of change and of topics, in six languages, and how such phrases are found in a text.

Words of change are given by the topic whose facts they end. Accents are left out. `…` stands for up to four words, a final `*` for any ending."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from memsvc.core.analysis import normalized_text

# fmt: off
ENDED: Final = """
    no longer; no more; not … after all; *n't … after all; not … any more; *n't … any more; *n't … anymore; not … anymore; gave up; given up; give up; stopped *ing; quit; got rid of; gave away; given away; unsubscribed; sold; packed in;
    nicht mehr; kein* … mehr; doch kein*; finalement pas; al final no; aufgegeben; abbestellt; aufgehort; verkauft; verschenkt; ya no; deje; dejado; dejamos; dejo de; vendi; vendimos; vendido; regale;
    ne … plus; n … plus; j … plus; arrete*; resilie; resiliee; vendu; vendue; vendus; revendu
"""
"""What they name is over or gone."""

GENERAL: Final = """
    i used to; we used to; used to be; used to have; changed; changing to; switched; switching; gone over;
    went over; moved over; moved on; migrated; migrating; turns out; changed my mind; change of plan*;
    gave it up; stopped; cancelled; canceled; called off; called … off; call … off; dropped; handed over; handed … over; handed in; handed in my;
    passed … on to; passed … to; took over; taken over; outgrew; outgrown; replaced; swapped; for good; for keeps; weaned; came off;
    taken off; took me off; took … off; lapsed; expired; ran out; discontinued; closed down; shut down; went bust; fed up; put paid to;
    is dead; are dead; went across; gone for; ditched; scrapped; axed; pulled out; pulled the; retired; over to;
    extended to; raised to; increased to; reduced to; went up to; postponed; pushed back; put back; brought forward; ended; finished with; done with; back on my; back to; uninstalled; broke; ripped out; torn out; threw out; thrown out; binned; stolen; all over; jacked in; went under;
    verlangert bis; erhoht auf; gesenkt auf; reduziert auf; verschoben; verlegt; umgestiegen; umgestellt; gewechselt; wechsel*; stattdessen; neuerdings; ab sofort; ab jetzt;
    ab heute; von nun an; abgesagt; gekundigt; kundigung; ubergeben; ubernimmt; ubernommen; abgegeben; vorbei; doch nicht;
    umentschieden; abgeschafft; beendet; eingestellt; abgesetzt; hingeschmissen; geschmissen; ersetzt; bis auf weiteres; abgeschaltet; rausgerissen; ausgebaut; entsorgt; gestohlen; getauscht;
    aplaz*; pospu*; cambie; cambiamos; cambiado; cambio a; en vez de; en lugar de; desde entonces; a partir de;
    cancele; cancelo; cancelamos; cancelado; cancelada; cancelaron; cancelar; suspend*; anul*; cerraron; cerro; me pase; nos pasamos; se acabo; se termino; apague; resulta que; de opinion; sustitu*; reemplaz*;
    vendieron; dimos de baja; di de baja; de baja; ahora nos; quitado; quitaron; lo quite; la quite; quite el; quite la; quite los; quite las; me quite; abandon*;
    laisse* tomber; change de; changer de; change pour; changee; changees; change d; a change; ai change; avons change; ont change; est change; passe* a; passe* au; passe* chez; passe* sur; au lieu; desormais; dorenavant;
    repousse a; repoussee a; reporte a; reportee a; decale; decalee; suis passe* de; sommes passe* de; est passe* de; sont passe* de; annul*; supprim*; a coupe; flambeau; remplac*; resilier; resiliation; fini; finie; rendu; rendue; bascul*; migre; migree; migres; plus jamais; a la place; jete; a ferme;
    不再; 再也; 改成; 改为; 改用; 改报; 改去; 改做; 改吃; 换到; 换成; 换了; 换去; 转到; 转去; 转网; 转成; 迁到; 取消; 停了; 停掉; 放弃; 下线; 戒了; 戒掉; 交给; 移交; 不干了; 不用了;
    推迟; 延期; 改到; 不吃了; 不去了; 不喝了; 不做了; 不学了; 不玩了; 注销; 退了; 退掉; 黄了; 吹了; 告吹; 停用; 弃用; 卖了; 卖掉; 扔了; 送人; 丢了;
    やめた; やめて; やめま; やめちゃ; 止めた; 変えた; 変えま; 変更; 変わった; 変わりま; 切り替え; 乗り換え; 移行; 移りま; 移った; 解約; キャンセル; 中止; 代わりに; 引き継; 諦め; 卒業;
    延び; 延期; もう行; もう使; 売った; 売って; 売りま; 捨てた; 処分; 譲っ; 続けられ; ことになりま; ことになった; 手放; なくなっ; 休止; 退会; 廃止
"""
"""What ended may be anything: it has to share words or a topic."""

WEAK: Final = """
    now; nowadays; these days; from today; as of; from now on; going forward; instead; finally; anymore; any more; new; gone; left; lost; first day;
    for good; tomorrow; starting; you'll find me; after all; broken; stopped;
    jetzt; nun; inzwischen; mittlerweile; seitdem; neu; neue; neuer; neuen; neues; statt; weg; ab morgen;
    ahora; al final; por fin; nuevo; nueva; anoche; ayer; ultimo; ultima; ya tengo; ya estoy;
    maintenant; depuis; finalement; nouveau; nouvelle; nouvel; hier; d'ores;
    以后; 从现在; 从今; 现在; 后来; 其实; 原来; 新; 已经; 终于; 昨晚; 上个月; 上礼拜; 上周; 改; 换;
    今は; これから; 以前は; 前は; 昔は; 新しい; 先月; 完了; ちゃった; ちゃいま; もう; になった; になりま
"""
"""Words that a change often has and other sentences as well: never enough to doubt a fact."""

AGAIN: Final = """
    again; started; taken up; took … up; resumed;
    wieder; angefangen; de nuevo; otra vez; he vuelto a; vuelvo a; volvi a; empece a; retom*; a nouveau; de nouveau; recommenc*; repris; me suis remis; me suis remise;
    又; 重新; 开始; また; 再び; 始め
"""
"""Words of what is taken up: they put in doubt what denied it, and nothing else."""

CORRECTION: Final = """
    correction; i meant; korrektur; ich meinte; je voulais dire; correccion; quise decir; queria decir; 更正; 我是说; 说错了; 訂正; 言い間違*
"""
"""Words that put right what was said just before."""

BY_TOPIC: Final[Mapping[str, str]] = {
    "home": """
        moved to; moved out; moved in; moved into; moved from; moved away; moved back; moving to; moving out; moving back; i moved; we moved; 've moved; have moved; just moved; relocated; relocating; the keys;
        boxes are; unpacked; lease; evicted; new place; new flat; new apartment; new house; settled in; downsized; tenancy;
        umgezogen; ausgezogen; eingezogen; weggezogen; hingezogen; umzug; umziehen; ausgepackt; mietvertrag; neue wohnung; neuen wohnung;
        me mude; mudamos; mudado; mudada; mudanza; las llaves; nuevo piso; nueva casa;
        demenag*; emmenag*; les cles; nouvel appart*; nouvelle maison; le bail;
        搬到; 搬家; 搬去; 搬走; 搬来; 搬进; 搬出; 搬回; 退租; 租约; 新家; 扎根; 定居; 落户; 行李;
        引っ越; 引越; 転居; 越してき; 退去; 新居; 転勤""",
    "address": """
        new address; neue adresse; neuen adresse; nueva direccion; nouvelle adresse; 新地址; 新住址; 新しい住所""",
    "job": """
        quit; resign*; in my notice; my notice; fired; laid off; made redundant; sacked; let me go; promoted; promotion; bumped up; new job; new role; new position; new employer;
        retired; retirement; first day at; stepped down; start at; starting at; started at; joined; changed jobs; switched jobs;
        gekundigt; entlassen; befordert; in rente; rentner*; pensionier*; ruhestand; neuer job; neuen job; neue stelle; neuer arbeitgeber; jobwechsel;
        renunci*; despid*; despedi*; ascendi*; jubil*; nuevo trabajo; nuevo puesto; nueva empresa; nuevo curro; de trabajo;
        demission*; vire; viree; licenci*; promu; promue; retraite; nouveau poste; nouveau boulot; nouvel emploi; reconvert*; de boulot; de metier; ma blouse;
        辞职; 离职; 跳槽; 被裁; 裁员; 被炒; 升职; 升了; 晋升; 退休; 新工作; 换工作; 转行; 工服; 入职; 辞了; 工牌;
        辞め; 退職; 転職; クビ; 昇進; 昇格; 定年; 異動; 新しい仕事; 転勤; 辞令; 独立し""",
    "love": """
        divorc*; separated; broke up; broken up; split up; split with; dumped; single again; married; got engaged; i'm engaged; we're engaged; engaged to; left me; decree; walked out; moved on from;
        getrennt; trennung; scheidung; geschieden; schluss gemacht; verheiratet; geheiratet; verlobt; auseinander; wieder single;
        divorci*; me separe; nos separamos; separado; separada; separados; separadas; separacion; rompi*; corte con; cortamos; me dejo; nos casamos; me case; solter*; lo dejamos;
        separe*; rompu; rupture; largue*; quitte*; marie; mariee; maries; plaque; plaquee; celibataire;
        离婚; 分手; 分了; 掰了; 劈腿; 拉黑; 结婚; 领证; 订婚; 单身; 甩了; 复合;
        別れ; 離婚; 振られ; 結婚し; 婚約; 独身; 破局; 籍を入れ""",
    "life": """
        died; passed away; funeral; buried; put down; put to sleep; lost our; lost my; goodbye to; cremat*; rehomed; didn't make it; over the rainbow;
        gestorben; verstorben; beerdig*; eingeschlafert; begraben; ist tot; uberfahren;
        murio; fallec*; enterr*; entierro; sacrificar*; sacrificado; sacrificada; sacrificamos; se nos fue; ha muerto;
        est mort; est morte; decede*; enterre*; eteint*; obseques; euthanasi*; nous a quitte*;
        去世; 死了; 过世; 走了; 下葬; 葬礼; 翻肚; 安乐死; 没了; 没救;
        亡くな; 死ん; 他界; 葬儀; 葬式; 虹の橋; 永眠; 旅立""",
    "car": """
        traded in; scrapyard; scrapped; totaled; totalled; wrote off; written off; new car; sold the car;
        verschrottet; totalschaden; neues auto; nuevo coche; coche nuevo; desguace; nouvelle voiture; a la casse;
        报废; 新车; 卖车; 廃車; 新車; 買い替え; 買い換え; 乗り換え""",
    "bike": "new bike; neues rad; neues fahrrad",
    "health": """
        weaned; came off; stopped taking; cured; in remission; all clear; ablation; outgrew;
        abgesetzt; geheilt; ausgeschlichen; me quitaron; curad*; gueri*; 停药; 治好; 痊愈; 完治; 薬をやめ""",
    "food": """
        back to meat; meat again; eat … again; back on my plate; off the meat; gone vegan; went vegan; gone vegetarian; turned vegan;
        wieder fleisch; vuelto a comer; vuelvo a comer; mange a nouveau; remange; 开荤; 吃肉了; 肉を食べ""",
}

TOPIC_WORDS: Final[Mapping[str, str]] = {
    "home": """
        live in; live at; live with; living in; lives in; based in; home is; address; flat; apartment; house; landlord; lease; rent; neighbourhood; been in; moved to;
        wohne; wohn; wohnen; lebe in; wohnung; zuhause; adresse; vermieter; miete; vivo; vivimos; piso; casa; alquiler; direccion; casero; habite; habitons;
        vis a; vis en; appart; appartement; maison; loyer; adresse; 住; 租房; 房东; 房租; 地址; 家在; 住ん; 暮らし; アパート; マンション; 住所; 大家; 家賃""",
    "job": """
        work at; work for; work as; works; working at; job; boss; employer; employed; salary; shift; office; i'm a; i am a; my company; resigned; notice; title; wait tables;
        colleague; arbeite; beruf; chef; chefin; arbeitgeber; angestellt; gehalt; stelle; buro; trabajo; trabajamos; jefe; jefa; empresa; sueldo; oficina;
        travaille; boulot; metier; patron; employeur; salaire; bureau; infirmier; poste; suis en cdi; 上班; 工作; 公司; 老板; 工资; 当老师; 送快递; 同事; 働; 仕事; 勤め; 会社; 上司; 給料; 職場; 教えてい""",
    "love": """
        wife; husband; boyfriend; girlfriend; partner; fiance; fiancee; spouse; married; engaged; dating; wedding; frau; mann; freund; freundin; partnerin; verlobt*; verheiratet; ehe;
        hochzeit; mujer; marido; novio; novia; pareja; esposa; esposo; casad*; boda; femme; mari; copain; copine; compagn*; fiance*; epous*; mariage;
        老婆; 老公; 男朋友; 女朋友; 男友; 女友; 对象; 丈夫; 妻子; 未婚; 订婚; 婚礼; 彼氏; 彼女; 妻; 夫; 旦那; 嫁; 婚約; 恋人; 付き合っ""",
    "life": """
        dog; cat; parrot; budgie; hamster; rabbit; horse; pony; tortoise; fish; puppy; kitten; pet; bird; grandmother; grandma; gran; grandfather; grandpa; mother; father; mum; mom; dad; aunt; uncle; lives with us;
        hund; katze; kater; hamster; pferd; wellensittich; papagei; haustier; oma; opa; mutter; vater; tante; onkel; perr*; gat*; loro; caballo; mascota; abuel*; madre; padre; tia; tio;
        chien; chienne; chat; chatte; cheval; lapin; perroquet; mamie; papi; papy; grand mere; grand pere; mere; pere; tante; oncle; 狗; 猫; 鹦鹉; 鱼; 兔; 仓鼠; 宠物; 奶奶; 爷爷; 外婆; 外公; 妈; 爸; 犬; インコ; うさぎ; 金魚; ペット; 祖母; 祖父; おばあ; おじい; 母; 父""",
    "car": """
        car; drive; van; truck; vehicle; auto; wagen; fahre; coche; carro; conduzco; voiture; bagnole; conduis; 车; クルマ; 車""",
    "bike": """
        bike; bicycle; motorbike; motorrad; fahrrad; moto; bici; bicicleta; velo; 自行车; 摩托; 単車; バイク; 自転車""",
    "health": """
        medication; medicine; tablets; pills; prescription; allergic; allergy; asthma; diabetic; take … every; lenses; glasses; insulin; tabletten; medikament; allergisch; nehme; brille; medicina; pastilla*; alergi*; gafas;
        medicament; allergi*; comprime*; lentilles; lunettes; traitement; 药; 过敏; 眼镜; 薬; アレルギー; コンタクト; 眼鏡; メガネ""",
    "food": """
        vegan; vegetarian; meat; diet; gluten; pescatarian; vegetari*; fleisch; ernahr*; vegan*; carne; dieta; viande; regime; 吃素; 素食; 肉; 菜食; ヴィーガン; ベジタリアン""",
}

TOPICS_BY_FACT: Final[Mapping[str, str]] = {
    "user_home": "home", "user_address": "home", "user_timezone": "home", "user_job": "job", "user_employer": "job", "user_relationship": "love",
    "user_family": "love", "user_pet": "life", "user_pet_kind": "life", "user_condition": "health", "user_medication": "health",
    "user_allergy": "health", "user_diet": "food", "user_food_rule": "food",
}

MAYBE: Final = """
    if; might; maybe; perhaps; would; should i; thinking of; thinking about; considering; planning to; want to; wants to; wish; hope to; could; going to; i may; we may; they may; it may; she may; he may; may be; may have; imagine; pretend; what happens;
    wenn; falls; vielleicht; sollte; uberlege; plane; hatte gern; si; quiza; quizas; tal vez; podria; deberia; quiero; quisiera; pienso; pensando;
    peut etre; pourrais; devrais; voudrais; envisage; j'aimerais; songe; 如果; 要是; 也许; 可能; 想要; 打算; 考虑; もし; かもしれ; たい; つもり; 考えてい
"""
"""What is only considered has not changed."""

OTHERS: Final = """
    brother; sister; cousin; friend; neighbour; neighbor; colleague; coworker; nephew; niece; roommate; bruder; schwester; cousine; freunde; nachbar*; kolleg*; neffe; nichte;
    herman*; prim*; amig*; vecin*; companer*; sobrin*; frere; soeur; cousin*; ami; amie; voisin*; collegue; neveu; niece; 哥; 弟; 姐; 妹; 朋友; 同事; 邻居; 兄; 弟; 姉; 妹; 友達; 同僚; 隣
"""
"""People whose change is not the user's, where the user is not in the sentence."""

EVENT: Final = (
    r"\b(?:was|were|did|had|went|came|got|took|gave|left|lost|found|sold|bought|quit|broke|became|brought|built|chose|fell|flew|held|hit|kept|laid|led|let|made|met|paid|put|ran|rang|sent|set|shut|spent|split|stole|swore|threw|told|tore|won|wrote|gone|done|off to"
    r"|(?!need|speed|seed|feed|indeed|exceed|proceed|hundred|breed|weed|greed)[a-z]{2,}[^e\W]ed)\b"
    r"|\b(?:ist|sind|bin|hat|haben|habe|hab|wurden?|habt|hast|wird)\b(?:\W+\w+){0,9}?\W+(?:\w*ge\w{2,}(?:t|en)|\w+iert|(?:ver|be|er|ent|zer|über|unter)\w+(?:t|en))\b|\b(?:waren?|ging(?:en)?|kam(?:en)?|wurden?|gab|ließ|hatten?|fiel|flog|zog(?:en)?)\b"
    r"|\b\w+(?:é|ó|aron|ieron|imos|amos|aste|iste)\b|\b(?:ha|han|he|hemos)\b\W+\w+(?:ado|ido|to|cho)\b|\b(?:fue|fueron|fui|dije|hizo|hice|puso|puse|tuvo|tuve|vino|quise|quiso)\b"
    r"|\b(?:ai|as|a|avons|avez|ont|est|suis|sont|sommes)\b\W+(?:\w+\W+){0,3}?\w+(?:é|és|ée|ées|u|ue|us|ues|i|ie|is|it|ert|erte|int|ort|orte)\b"
    r"|了|过(?=[，。,！]|$)"
    r"|(?:[っいきぎちにびみりしえけげせてねべめれ]た|んだ|った)(?=[。！!、，…\s]|$|よ|ね|ん|の|けど|から|ので|し|わ|笑|w|ー|ぞ|って|が)|[てで](?:しま|ちゃ)|[今来]月から|今週から|来週から|今日から"
)
"""What tells that something happened, or begins: the past tenses."""

FAMILY: Final = """
    mum; mom; mother; dad; father; parents; son; daughter; kid; kids; child; children; aunt; uncle; grand*; in laws;
    mutter; mama; vater; papa; eltern; sohn; tochter; kind; kinder; tante; onkel; oma; opa; gross*; schwieger*;
    madre; mama; padre; papa; padres; hijo; hija; hijos; hijas; tia; tio; abuel*; sueg*; mere; maman; pere; parents; fils; fille; enfant*; oncle; mamie; papi; papy; beau pere; belle mere;
    妈; 爸; 父母; 儿子; 女儿; 孩子; 奶奶; 爷爷; 外婆; 外公; 母; 父; 両親; 息子; 娘; 子供; 祖父; 祖母
"""
"""Family whose move, job or illness is not the user's, where the user is not in the sentence; whom
they love and lose is."""

SELF: Final = """
    i; i'm; i've; we; we're; we've; us; me; ich; wir; mich; uns; me; yo; nos; nosotros; je; j; on; nous; 我; 我们; 咱; 私; 僕; 俺; うち
"""
# fmt: on

NEGATIVE: Final = re.compile(
    r"n't\b|\b(?:(?:can)?not|no|never|nicht|kein\w*|nie|ne|n|pas|jamais|nunca|sin)\b|不|没|未|无|ない|ません"
)
CJK: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
NEGATION_CHARS: Final = 24
_WORD: Final = re.compile(r"[^\W_]+")


class Phrases:
    """Phrases by their labels: only those with a word of the text are compared with it.

    `…` stands for up to four words, a `*` for any beginning or ending, `/` between words for either."""

    def __init__(self, phrases_by_label: Mapping[str, str]) -> None:
        self._by_prefix: dict[str, list[tuple[str, str, str]]] = {}
        self._by_phrase: dict[str, list[str]] = {}
        for label, phrases in phrases_by_label.items():
            for phrase in filter(None, map(_normalized, phrases.split(";"))):
                if CJK.search(phrase):
                    self._by_phrase.setdefault(phrase, []).append(label)
                    continue
                words = [word for word in phrase.split() if word[0] != "*"]
                word = max(words, key=lambda word: min(map(len, word.split("/"))))
                for part in {_part(either) for either in word.split("/")}:
                    self._by_prefix.setdefault(part[:4], []).append((label, part, phrase))

    def labels_in(self, words: str, refused: re.Pattern[str] | None = None) -> set[str]:
        """Return the labels of the phrases in a text, without those right after `refused`."""
        return {label for label, _ in self.found_in(words, refused)}

    def found_in(self, words: str, refused: re.Pattern[str] | None = None) -> set[tuple[str, str]]:
        """Return the phrases in a text with their labels, without those right after `refused`."""
        return {
            (label, phrase)
            for label, phrase, start in self.matches(words)
            if refused is None or not refused.search(words[max(0, start - NEGATION_CHARS) : start])
        }

    def is_in(self, words: str) -> bool:
        """Return whether a text has one of the phrases."""
        return next(self.matches(words), None) is not None

    def matches(self, words: str) -> Iterator[tuple[str, str, int]]:
        """Yield the phrases in a text with their labels and where they begin."""
        for start in self._by_prefix.keys() & {word[:4] for word in _WORD.findall(words)}:
            for label, part, phrase in self._by_prefix[start]:
                if part in words:
                    for match in _compiled(phrase).finditer(words):
                        yield label, phrase, match.start()
        if CJK.search(words):
            for phrase, labels in self._by_phrase.items():
                if (at := words.find(phrase)) >= 0:
                    yield from ((label, phrase, at) for label in labels)


def _normalized(phrase: str) -> str:
    return normalized_text(phrase.strip()).replace("...", "…")


def _part(word: str) -> str:
    return max(_WORD.findall(word), key=len, default="")


@lru_cache(8192)
def _compiled(phrase: str) -> re.Pattern[str]:
    """Return the pattern of a phrase."""
    words = [
        r"(?:\w+\W+){0,4}?"
        if word == "…"
        else "(?:" + "|".join(map(_either, word.split("/"))) + ")"
        for word in phrase.split()
    ]
    pattern = r"\W+".join(words).replace(r"{0,4}?\W+", "{0,4}?")
    return re.compile((r"\b" if phrase[0].isalnum() else "") + pattern)


def _either(word: str) -> str:
    start, end = (r"\w*" if starred else r"\b" for starred in (word[0] == "*", word[-1] == "*"))
    return start + re.escape(word.strip("*")) + end


COMPANION: Final = re.compile(r"\b(?:with|mit|avec|con) ([A-ZÀ-ÖØ-Þ][\w'-]*)")
"""The name of somebody with whom something was done, as "Mia" in "watched a film with Mia"."""
_NAME: Final = re.compile(r"[^\W_]+")
SHORT_NUMBER_DIGITS: Final = 2


def names_in(text: str) -> list[str]:
    """Return the words that are written as names or numbers; a short number is none."""
    return [
        word
        for word in _NAME.findall(CJK.sub(" ", text))
        if word[0].isupper() or (word[0].isdigit() and len(word) > SHORT_NUMBER_DIGITS)
    ]
