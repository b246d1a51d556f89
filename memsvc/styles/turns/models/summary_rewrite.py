"""Model-written summary of a session's older context, by a job after the rule-based compaction."""

from typing import Final
from zlib import crc32

import orjson
import regex
import structlog

from memsvc.core.errors import MemsvcError, ModelOutputError
from memsvc.core.frozen import frozen
from memsvc.core.package_texts import package_text
from memsvc.core.ports import Clock, Llm
from memsvc.core.scope import Scope
from memsvc.core.secrets import replace_secrets
from memsvc.core.untrusted import escaped
from memsvc.store import jobs
from memsvc.store.database import Database
from memsvc.store.locks import session_lock
from memsvc.styles.model_budget import BudgetExhaustedError
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.maintenance.compaction import (
    ContextSummary,
    current_summary,
    replace_summary,
    summary_tok_max,
)
from memsvc.styles.turns.models.model_budget import ModelCallBudget
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import policy_of

log = structlog.get_logger("memsvc.rewording")

SUMMARISE_JOB: Final = "turns.summarise"
CATEGORY: Final = "compaction"
MESSAGES_TOK: Final = 12_000
"""Limit of messages to read; of more, the latest: the existing summary covers the rest."""
WORDS_TARGET: Final = 250
_INSTRUCTIONS: Final = package_text(__package__, "prompts/summarise_context.md").format(
    words=WORDS_TARGET
)
EXTRA_TOK: Final = 200
"""Tokens that the model may write beyond those that are kept, so that it can finish."""
ANSWER_CHARS_MAX: Final = 20_000

_LINE: Final = regex.compile(r"\s*[-*•]?\s*(\d{4}-\d\d-\d\d) ([^:\n]{1,128}): *(\S.*)")
_HIDDEN: Final = regex.compile(
    r"[[\p{Cc}--\n]\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}[\p{Cf}--[\u200c\u200d]]]", regex.V1
)


@frozen
class SummaryRewrite:
    """Rewriting of the summary of a session's older context by a model.

    A summary that a model wrote is left as it is, so twice is the same as once, and a failing model
    changes nothing."""

    database: Database
    llm: Llm
    clock: Clock
    costs: Costs
    options: TurnOptions
    allowance: ModelCallBudget

    async def summarise(self, scope: Scope, subject: str) -> None:
        """Job: rewrite the summary of the session.

        No transaction is open while the model works, and its text is dropped if the summary changed
        meanwhile. A session whose policy forbids storage is never sent to it. If it is out of reach
        or refuses, the error passes through."""
        async with self.database.begin_read(scope) as tx:
            current = await current_summary(tx, subject)
        if current is None or current.model == self.llm.model:
            return
        if not policy_of(current.policy_stored, self.options).store:
            return
        wait_s = None
        try:
            text = await self._call_model(scope, current)
        except BudgetExhaustedError:
            wait_s, text = self.allowance.budget.next_day_delay_s(crc32(subject.encode())), ""
        if text and not await self._put(scope, subject, current, text):
            wait_s = 0.0
        if wait_s is not None:
            async with self.database.begin(scope) as tx:
                await jobs.enqueue(tx, SUMMARISE_JOB, subject, now=self.clock.now(), delay_s=wait_s)

    async def _call_model(self, scope: Scope, current: ContextSummary) -> str:
        """Return the lines of the model's answer; "" when there are none."""
        text = self._model_input(current)
        max_tokens = summary_tok_max(policy_of(current.policy_stored, self.options))
        try:
            answer = await self.allowance.call(
                scope,
                CATEGORY,
                lambda: self.llm.complete(
                    _INSTRUCTIONS, text, output_tokens_max=max_tokens + EXTRA_TOK
                ),
            )
        except ModelOutputError:
            return ""
        except MemsvcError as error:
            log.warning(
                "the model failed to rewrite a summary", code=error.code.value, reason=error.message
            )
            raise
        days = {one.day for one in current.messages} | set(
            regex.findall(r"\d{4}-\d\d-\d\d", current.text)
        )
        return self._valid_lines(answer, days, max_tokens)

    async def _put(self, scope: Scope, session: str, current: ContextSummary, text: str) -> bool:
        async with self.database.begin(
            scope,
            locks=[session_lock(session)],
            lock_timeout_ms=self.options.session_lock_timeout_ms,
        ) as tx:
            if await current_summary(tx, session) != current:
                return False
            return await replace_summary(
                tx, session, current.event, text, now=self.clock.now(), model=self.llm.model
            )

    def _model_input(self, current: ContextSummary) -> str:
        messages = []
        left = MESSAGES_TOK
        for message in reversed(current.messages):
            if message.role not in ("user", "assistant"):
                continue
            left -= self.costs.text(message.text)
            if left < 0:
                break
            messages.append(
                {
                    "day": message.day,
                    "who": message.who,
                    "role": message.role,
                    "text": replace_secrets(message.text),
                }
            )
        return escaped(
            orjson.dumps(
                {"summary": replace_secrets(current.text), "said": messages[::-1]}
            ).decode()
        )

    def _valid_lines(self, answer: str, days: set[str], tok_max: int) -> str:
        """Return the valid lines of an answer, about days in the input, the latest that fit."""
        lines = []
        left = tok_max
        for line in reversed(
            replace_secrets(_HIDDEN.sub("", answer[:ANSWER_CHARS_MAX])).split("\n")
        ):
            found = _LINE.fullmatch(line)
            if found is None or found[1] not in days:
                continue
            valid_line = f"- {found[1]} {found[2].strip()}: {found[3].strip()}"
            left -= self.costs.text(valid_line + "\n")
            if left < 0:
                break
            lines.append(valid_line)
        return "\n".join(reversed(lines))
