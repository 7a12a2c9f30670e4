/** Reads an answer from an OpenAI-compatible chat endpoint, as it is written. */

const problem = (code, message) => Object.assign(new Error(message), { code });

async function ask({ url, model, key, question }, signal) {
  const address = `${url.replace(/\/+$/u, "").replace(/\/chat\/completions$/u, "")}/chat/completions`;
  const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
  const messages = [{ role: "user", content: question }];
  const body = JSON.stringify({ model, messages, stream: true });
  try {
    return await fetch(address, { method: "POST", headers, body, signal, credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (signal.aborted) throw error;
    throw problem("chat_unreachable", `${address} didn't answer.`);
  }
}

async function refusal(answer) {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text);
    return `It says: ${error.message ?? error}`;
  } catch {
    return `It answered with status ${answer.status}.`;
  }
}

/** The lines of a response, as they come. */
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (rest + (value ?? "")).split(/\r?\n/u);
    rest = done ? "" : parts.pop();
    yield* parts;
    if (done) return;
  }
}

/** The answer's increments. `signal` aborts the request: a model needn't go on writing what nobody hears. */
export async function* readChat(request, signal) {
  const answer = await ask(request, signal);
  if (!answer.ok) throw problem("chat_refused", await refusal(answer));
  for await (const line of lines(answer.body)) {
    const data = line.startsWith("data:") ? line.slice(5).trim() : "";
    if (data === "[DONE]") return;
    const text = data && JSON.parse(data).choices?.[0]?.delta?.content;
    if (text) yield text;
  }
}
