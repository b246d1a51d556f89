"""Hooks of hosts: recall at a session's start and at a prompt, storing at a stop; they fail open.

It imports little so that it starts at once: a host waits for it at each prompt."""

import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Thread
from time import monotonic, time
from typing import Final
from urllib.parse import urlsplit

from memsvc.hosts.hook_files import HookFiles, HookSettings, project_of
from memsvc.hosts.payload import (
    ANSWER_PART,
    EVENTS,
    HOSTS,
    HookPayload,
    Json,
    hook_output,
    memory_context,
    read_payload,
    transcript_turns,
)

WAIT_S: Final = 0.8
"""Seconds from the start of this module until the host goes on; loading it took some before."""
PAYLOAD_BYTES_MAX: Final = 16 * 1024 * 1024
TAIL_BYTES: Final = 1024 * 1024
STORED_MAX: Final = 50
SESSIONS_TOLD: Final = 3
LAST_WORDS_CHARS: Final = 200
PROFILE_QUESTION: Final = "Hello"
"""A question that recalls nothing, so that only the profile is told."""
REFUSED: Final = frozenset({"INVALID_ARGUMENT", "INVALID_CONTENT", "PAYLOAD_TOO_LARGE"})
"""Errors of a turn that will never be stored, however often it is sent."""
SESSION_BYTES_MAX: Final = 128


class CallError(Exception):
    """The server refused a call."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class MemoryCalls:
    """Calls of tools of a running server over one connection, all before a deadline."""

    def __init__(self, settings: HookSettings, deadline: float) -> None:
        parts = urlsplit(settings.url)
        https = parts.scheme == "https"
        if not parts.hostname or not (https or parts.scheme == "http"):
            raise ValueError("the server's URL is no URL")
        connection = http.client.HTTPSConnection if https else http.client.HTTPConnection
        self._http = connection(parts.hostname, parts.port)
        self._path = parts.path.rstrip("/").removesuffix("/mcp")
        self._headers = {"Content-Type": "application/json"}
        if settings.key:
            self._headers["Authorization"] = f"Bearer {settings.key}"
        self._deadline = deadline
        self.close = self._http.close

    def __call__(self, tool: str, arguments: Json) -> Json:
        """Return the result of a tool. Raises CallError, OSError or HTTPException."""
        left_s = self._deadline - monotonic()
        if left_s <= 0:
            raise TimeoutError("the server took too long")
        self._http.timeout = left_s
        if self._http.sock is not None:
            self._http.sock.settimeout(left_s)
        body = json.dumps(arguments).encode()
        self._http.request("POST", f"{self._path}/api/tools/{tool}", body, self._headers)
        response = self._http.getresponse()
        answer = response.read()
        try:
            found = json.loads(answer)
        except ValueError:
            found = {}
        if response.status != http.client.OK or not isinstance(found, dict):
            code = found.get("code") if isinstance(found, dict) else None
            raise CallError(str(code or f"no memsvc there (status {response.status})"))
        return found


class Hook:
    """One run of a hook; `output` is for the host, `errors` are for people."""

    def __init__(self, event: str, host: str) -> None:
        self.event = event
        self.host = host
        self.output = ""
        self.errors: list[str] = []
        self._deadline = monotonic() + WAIT_S
        self._files = HookFiles.of(os.environ)

    def run(self) -> None:
        """Keep what the payload tells, then recall, then store what waits."""
        settings = self._files.settings(os.environ)
        payload = read_payload(self.host, json.loads(sys.stdin.buffer.read(PAYLOAD_BYTES_MAX)))
        session = f"{self.host}-{payload.session}"
        if len(session.encode()) > SESSION_BYTES_MAX:
            session = f"{self.host}-{sha256(session.encode()).hexdigest()}"
        state = self._files.session(session)
        state["project"] = settings.project or state.get("project") or project_of(payload.folder)
        about = {"project": state["project"], "session_id": session, "user_id": settings.user}
        self._keep(payload, state, about)
        self._files.keep_session(session, state)
        with closing(MemoryCalls(settings, self._deadline)) as calls:
            if self.event in ("session-start", "prompt"):
                context = self._recall(calls, about, payload)
                self.output = hook_output(self.host, self.event, context)
            self._store(calls)

    def wait(self) -> None:
        """Run until the deadline at the most, whatever the server, the disk or the host do."""
        thread = Thread(target=self._run_open, daemon=True)
        thread.start()
        thread.join(max(0.0, self._deadline - monotonic()))
        if thread.is_alive():
            self.errors.append("the server took too long")

    def _run_open(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - a hook must never stop its host; it says what failed
            self.errors.append(str(error) if isinstance(error, CallError) else type(error).__name__)

    def _keep(self, payload: HookPayload, state: Json, about: Json) -> None:
        """Note a prompt, or spool the turn that a stop ends; spool turns that were missed before.

        Every turn is in a file before the server is called, so nothing depends on its answer."""
        turn_id = payload.turn_id
        if self.event == "stop":
            pending = state["pending"]
            if payload.name == ANSWER_PART:
                if pending:
                    pending["output_items"] += _message("assistant", payload.answer)
                return
            if pending and turn_id in ("", pending["turn_id"]):
                answer = _message("assistant", payload.answer) or pending["output_items"]
                self._spool(state, pending | {"output_items": answer})
                state["pending"] = None
                return
        elif self.event == "prompt" and payload.prompt:
            state["turns"] += 1
            turn_id = turn_id or f"{payload.session}-{state['since']}-{state['turns']}"
        self._fill(payload, state, about, turn_id)
        if self.event == "prompt" and payload.prompt:
            state["pending"] = _turn(about, turn_id, payload.prompt, "", _now())
        elif self.event == "session-start":
            for turn in self._files.expired_prompts(time()):
                self._files.spool(turn)

    def _fill(self, payload: HookPayload, state: Json, about: Json, turn_id: str) -> None:
        """Spool from the transcript what no stop told of: turns after the first that is known.

        A turn that has begun is left to its stop, unless that is now and its prompt was missed."""
        by_id = {
            turn.turn_id: turn for turn in transcript_turns(self.host, _tail(payload.transcript))
        }
        pending = state["pending"]
        if pending and self.event in ("prompt", "stop") and pending["turn_id"] != turn_id:
            found = by_id.get(pending["turn_id"])
            answer = _message("assistant", found.answer) if found else pending["output_items"]
            self._spool(state, pending | {"output_items": answer})
            pending = state["pending"] = None
        current = pending["turn_id"] if pending else turn_id
        known = False
        for turn in by_id.values():
            if turn.turn_id in state["seen"]:
                known = True
            elif turn.turn_id == turn_id and self.event == "stop":
                answer = payload.answer or turn.answer
                self._spool(state, _turn(about, turn_id, turn.prompt, answer, turn.timestamp))
            elif known and turn.turn_id != current:
                self._spool(
                    state, _turn(about, turn.turn_id, turn.prompt, turn.answer, turn.timestamp)
                )

    def _spool(self, state: Json, turn: Json) -> None:
        self._files.spool(turn)
        state["seen"].append(turn["turn_id"])

    def _recall(self, calls: MemoryCalls, about: Json, payload: HookPayload) -> str:
        question = payload.prompt if self.event == "prompt" else PROFILE_QUESTION
        if not question.strip():
            return ""
        try:
            found = calls("memory_before_turn", about | {"current_input_text": question})
            sessions = (
                [*self._recent_sessions(calls, about)] if self.event == "session-start" else []
            )
        except CallError as error:
            self.errors.append(error.code)
            return ""
        return memory_context(found["input_items"], sessions)

    def _recent_sessions(self, calls: MemoryCalls, about: Json) -> Iterator[Json]:
        """Yield the user's latest other sessions with the last that the user said in each."""
        arguments = {"project": about["project"], "user_id": about["user_id"]}
        listed = calls("memory_list_sessions", arguments | {"limit": SESSIONS_TOLD + 1})
        others = [each for each in listed["sessions"] if each["session_id"] != about["session_id"]]
        for other in others[:SESSIONS_TOLD]:
            told = calls(
                "memory_list_turns",
                {"project": about["project"], "session_id": other["session_id"], "limit": 10},
            )
            said = [item["text"] for item in told["items"] if item["role"] == "user"]
            yield {
                "session": other["session_id"],
                "time": other["updated_at"],
                "user": said[0][:LAST_WORDS_CHARS] if said else "",
            }

    def _store(self, calls: MemoryCalls) -> None:
        """Store the turns that wait; one that is refused for good is kept aside."""
        denied: set[str] = set()
        for number, (path, turn) in enumerate(self._files.spool_files()):
            if number >= STORED_MAX or turn["project"] in denied:
                continue
            try:
                calls("memory_after_turn", turn)
            except CallError as error:
                if error.code in REFUSED:
                    path.replace(path.with_suffix(".refused"))
                    self.errors.append(error.code)
                elif error.code != "CONFLICT":  # which is: stored before, with other words
                    denied.add(turn["project"])
                    self.errors.append(error.code)
                    continue
            path.unlink(missing_ok=True)


def run_hook(event: str, host: str) -> None:
    """Run a hook: context on standard output, at most a line on stderr, never a failure."""
    if event not in EVENTS or host not in HOSTS:
        sys.stderr.write(f"memsvc: there is no hook {event} of {host}\n")
        return
    hook = Hook(event, host)
    hook.wait()
    with suppress(BrokenPipeError):
        sys.stdout.write(hook.output)
        if hook.errors:
            sys.stderr.write(f"memsvc: {hook.errors[0][:200]}\n")
        sys.stdout.flush()


def _turn(about: Json, turn_id: str, prompt: str, answer: str, timestamp: str) -> Json:
    """Return the arguments of `memory_after_turn`."""
    said = {"metadata": {"occurred_at": timestamp}} if timestamp else {}
    return about | {
        "turn_id": turn_id,
        "input_items": [item | said for item in _message("user", prompt)],
        "output_items": _message("assistant", answer),
    }


def _message(role: str, text: str) -> list[Json]:
    return [{"role": role, "content": text}] if text.strip() else []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tail(transcript: str) -> list[bytes]:
    """Return the last lines of a transcript; none where there is no such file yet."""
    with suppress(OSError), Path(transcript).open("rb") as file:
        file.seek(max(0, Path(transcript).stat().st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES).splitlines()
    return []
