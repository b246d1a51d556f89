// Memory by memsvc: written by `memsvc install opencode`, removed by its --remove.
import { spawnSync } from "node:child_process"

const COMMAND = "MEMSVC_COMMAND"

// a hook takes a second at the most; waiting for it keeps what `opencode run` would not wait for
function hook(event, payload) {
  const input = JSON.stringify({ cwd: process.cwd(), ...payload })
  const done = spawnSync(`${COMMAND} hook ${event} --host opencode`, { input, shell: true, timeout: 5000 })
  try {
    return JSON.parse(done.stdout.toString())
  } catch {
    return {}
  }
}

export const Memsvc = async ({ client }) => {
  const show = ({ notice, context }) => {
    if (notice) client?.tui?.showToast?.({ body: { message: notice, variant: "warning" } }).catch(() => {})
    return context
  }
  const children = new Set() // sessions of subagents
  const turns = new Map() // session: {turn_id, texts}
  return {
    "chat.message": async (input, output) => {
      const session_id = input.sessionID
      if (children.has(session_id)) return
      const message = output.message
      const said = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = said.map((part) => part.text).join("\n")
      const first = !turns.has(session_id)
      turns.set(session_id, { turn_id: message.id, texts: new Map() })
      const answers = [first ? hook("session-start", { session_id }) : {}, hook("prompt", { session_id, turn_id: message.id, prompt })]
      answers.map(show).filter(Boolean).forEach((text, index) =>
        output.parts.push({ id: `${message.id.replace(/^msg/, "prt")}m${index}`, sessionID: session_id, messageID: message.id, type: "text", text, synthetic: true }),
      )
    },
    event: async ({ event }) => {
      const about = event.properties || {}
      if (event.type === "session.created" && about.info?.parentID) children.add(about.info.id)
      if (event.type === "message.part.updated" && about.part?.type === "text") {
        const turn = turns.get(about.part.sessionID)
        if (turn && about.part.messageID !== turn.turn_id) turn.texts.set(about.part.id, about.part.text)
      }
      if (event.type === "session.idle") {
        const turn = turns.get(about.sessionID)
        if (!turn || !turn.texts.size) return
        show(hook("stop", { session_id: about.sessionID, turn_id: turn.turn_id, answer: [...turn.texts.values()].join("\n") }))
        turn.texts.clear()
      }
    },
  }
}
