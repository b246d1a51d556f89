"""Model-written summary of a session's older context, by a job after the rule-based compaction."""

from importlib.resources import files as resources
from typing import Final
from zlib import crc32

import orjson
import regex
import structlog

from memsvc.core.errors import MemsvcError, UnusableAnswerError
from memsvc.core.ports import Clock, Llm
from memsvc.core.scope import Scope
from memsvc.core.secrets import masked
from memsvc.core.tools import Job
from memsvc.core.untrusted import escaped
from memsvc.store import jobs
from memsvc.store.database import Database
from memsvc.store.locks import session_lock
from memsvc.styles.model_budget import SpentError
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.models.allowance import Allowance
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import policy_of
from memsvc.styles.turns.upkeep.compaction import Standing, replace_summary, standing_summary, summary_tok_max

log = structlog.get_logger("memsvc.rewording")

SUMMARISE_JOB: Final = "turns.summarise"
PURPOSE: Final = "compaction"
SAID_TOK: Final = 12_000
"""Limit of messages to read; of more, the latest: the existing summary covers the rest."""
WORDS_WANTED: Final = 250
SPARE_TOK: Final = 200
"""Tokens that the model may write beyond those that are kept, so that it can finish."""
ANSWER_CHARS_MAX: Final = 20_000

_LINE: Final = regex.compile(r"\s*[-*•]?\s*(\d{4}-\d\d-\d\d) ([^:\n]{1,128}): *(\S.*)")
_UNSEEN: Final = regex.compile(r"[[\p{Cc}--\n]\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}[\p{Cf}--[\u200c\u200d]]]", regex.V1)


class Rewording:
    """Rewriting of the summary of a session's older context by a model.

    A summary that a model wrote is left as it is, so twice is the same as once, and a failing model
    changes nothing."""

    def __init__(
        self, database: Database, llm: Llm, clock: Clock, costs: Costs, options: TurnOptions, allowance: Allowance
    ) -> None:
        self._database = database
        self._llm = llm
        self._clock = clock
        self._costs = costs
        self._options = options
        self._allowance = allowance
        prompt = resources("memsvc.styles.turns.models").joinpath("prompts/summarise_context.md").read_text("utf-8")
        self._instructions = prompt.format(words=WORDS_WANTED)
        self.job = Job(name=SUMMARISE_JOB, run=self.summarise, attempts_max=2)

    async def summarise(self, scope: Scope, subject: str) -> None:
        """Job: rewrite the summary of the session.

        No transaction is open while the model works, and its text is dropped if the summary changed
        meanwhile. A session whose policy forbids storage is never sent to it. If it is out of reach
        or refuses, the error passes through."""
        async with self._database.begin(scope, read_only=True) as tx:
            standing = await standing_summary(tx, subject)
        if standing is None or standing.worded_by == self._llm.model:
            return
        if not policy_of(standing.own_policy, self._options).store:
            return
        wait_s = None
        try:
            text = await self._ask(scope, standing)
        except SpentError:
            wait_s, text = self._allowance.until_tomorrow_s(crc32(subject.encode())), ""
        if text and not await self._put(scope, subject, standing, text):
            wait_s = 0.0
        if wait_s is not None:
            async with self._database.begin(scope) as tx:
                await jobs.enqueue(tx, SUMMARISE_JOB, subject, now=self._clock.now(), delay_s=wait_s)

    async def _ask(self, scope: Scope, standing: Standing) -> str:
        """Return the lines of the model's answer; "" when there are none."""
        text = self._shown(standing)
        most = summary_tok_max(policy_of(standing.own_policy, self._options))
        try:
            answer = await self._allowance.ask(
                scope,
                PURPOSE,
                lambda: self._llm.complete(self._instructions, text, output_tokens_max=most + SPARE_TOK),
            )
        except UnusableAnswerError:
            return ""
        except MemsvcError as error:
            log.warning("the model failed to rewrite a summary", code=error.code.value, reason=error.message)
            raise
        days = {one.day for one in standing.said} | set(regex.findall(r"\d{4}-\d\d-\d\d", standing.text))
        return self._kept(answer, days, most)

    async def _put(self, scope: Scope, session: str, standing: Standing, text: str) -> bool:
        async with self._database.begin(
            scope, locks=[session_lock(session)], lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            if await standing_summary(tx, session) != standing:
                return False
            return await replace_summary(
                tx, session, standing.event, text, now=self._clock.now(), worded_by=self._llm.model
            )

    def _shown(self, standing: Standing) -> str:
        said = []
        left = SAID_TOK
        for one in reversed(standing.said):
            if one.role not in ("user", "assistant"):
                continue
            left -= self._costs.text(one.text)
            if left < 0:
                break
            said.append({"day": one.day, "who": one.who, "role": one.role, "text": masked(one.text)})
        return escaped(orjson.dumps({"summary": masked(standing.text), "said": said[::-1]}).decode())

    def _kept(self, answer: str, days: set[str], tok_max: int) -> str:
        """Return the valid lines of an answer, about days in the input, the latest that fit."""
        lines = []
        left = tok_max
        for line in reversed(masked(_UNSEEN.sub("", answer[:ANSWER_CHARS_MAX])).split("\n")):
            found = _LINE.fullmatch(line)
            if found is None or found[1] not in days:
                continue
            told = f"- {found[1]} {found[2].strip()}: {found[3].strip()}"
            left -= self._costs.text(told + "\n")
            if left < 0:
                break
            lines.append(told)
        return "\n".join(reversed(lines))
