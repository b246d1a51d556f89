// A turn and a whiteboard through the official TypeScript SDKs. Arguments: the folder with node_modules, which SDK (`sdk`
// for the older wire, `client` for either), which wire, the server's URL, the key. What came of it is printed as JSON.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [folder, sdk, wire, url, key] = process.argv.slice(2);
const require = createRequire(join(folder, 'index.js'));
const headers = { Authorization: `Bearer ${key}` };
const named = { name: 'typescript', version: '1' };

async function connected() {
  if (sdk === 'client') {
    const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
    const mode = wire === '2026-07-28' ? { pin: wire } : 'legacy';
    const client = new Client(named, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
    return client;
  }
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const client = new Client(named);
  if (wire === 'sse') {
    const { SSEClientTransport } = require('@modelcontextprotocol/sdk/client/sse.js');
    await client.connect(new SSEClientTransport(new URL(`${url}/sse`), { requestInit: { headers } }));
  } else {
    const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  }
  return client;
}

const client = await connected();

async function used(name, given, options) {
  // The older SDK takes the schema of the result second.
  const asked = { name, arguments: given };
  const answer = sdk === 'sdk' ? await client.callTool(asked, undefined, options) : await client.callTool(asked, options);
  if (answer.isError) throw new Error(`${name}: ${JSON.stringify(answer.content)}`);
  return answer.structuredContent;
}

const told = [];
const session = { session_id: `typescript on ${wire} by ${sdk}`, user_id: `user of ${wire} and ${sdk}` };
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const before = await used('memory_before_turn', { ...session, current_input: 'My name is Ada Lovelace.' });
const turn = { ...session, turn_id: before.turn_id, input_items: before.input_items };
const said = [{ role: 'assistant', content: 'Nice to meet you.' }];
const stored = await used('memory_after_turn', { ...turn, output_items: said });
const again = await used('memory_after_turn', { ...turn, output_items: said });
const asked = await used('memory_run_turn', { ...session, current_input: 'What is my name?' });
const committed = await used('memory_commit_turn', {
  operation_token: asked.operation_token,
  output_items: [{ role: 'assistant', content: 'Ada Lovelace.' }],
});
const maintained = await used('memory_run_maintenance', session_only(), { onprogress: (one) => told.push(one) });
const listed = await used('memory_list_dir_with_abstract', session_only());
const place = { user_id: session.user_id, conversation_id: 'one' };
await used('context_update', { ...place, entries: [{ role: 'user', content: 'The launch is on Friday.' }] });
const board = await client.readResource({
  uri: `memory://${encodeURIComponent(place.user_id)}/${place.conversation_id}`,
});
await client.close();

function session_only() {
  return { session_id: session.session_id };
}

console.log(
  JSON.stringify({
    tools,
    stored,
    again,
    recalled: JSON.stringify(asked.input_items),
    committed,
    maintained,
    directories: listed.summaries.map((one) => one.path),
    progress: told,
    board: board.contents[0].text,
  }),
);
