// Drives the mobile client against a server: `node mobile.mjs URL COMPILED_MODULE`. Prints what it saw as JSON.
import { pathToFileURL } from "node:url";
import WebSocket from "ws";

const [, , url, compiled] = process.argv;
const { Speech } = await import(pathToFileURL(compiled).href);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A loudspeaker by the clock: plays in real time from its first sample on. */
class Loudspeaker {
  samples = [];
  rateHz = 0;
  state = "idle";
  paused = false;
  #startedAt = null;
  #stoppedMs = null;
  start(rateHz) {
    this.rateHz = rateHz;
    this.state = "started";
  }
  write(samples) {
    this.#startedAt ??= performance.now();
    this.samples.push(...samples);
  }
  finish() {
    this.state = "finished";
  }
  stop() {
    this.#stoppedMs = this.playedMs;
    this.state = "stopped";
  }
  get playedMs() {
    if (this.#stoppedMs !== null) return this.#stoppedMs;
    if (this.#startedAt === null) return 0;
    const since = performance.now() - this.#startedAt;
    return Math.min(since, (this.samples.length / this.rateHz) * 1000);
  }
}

const speech = new Speech(url, undefined, WebSocket);

async function whole() {
  const sink = new Loudspeaker();
  const text = "Good morning 😀. The train leaves at nine, from the second platform.";
  const utterance = speech.say(sink);
  for (const unit of text.split("")) utterance.feed(unit); // each emoji torn in two
  utterance.finish();
  const ending = await utterance.ending;
  const bytes = Buffer.from(Int16Array.from(sink.samples).buffer).toString("base64");
  return { text, kept: utterance.text, ending, rateHz: sink.rateHz, state: sink.state, pcm: bytes };
}

async function interrupted() {
  const first = new Loudspeaker();
  const text = "😀 One moment please, while I look for the train that you asked about, and then for its platform.";
  const long = speech.say(first);
  long.feed(text);
  long.finish();
  while (first.playedMs < 1500) await pause(20);
  const word = long.word;
  const second = new Loudspeaker();
  const short = speech.say(second, {}, long);
  const old = await long.ending;
  short.feed("Never mind.");
  short.finish();
  const ending = await short.ending;
  return { text, old, word: word && text.slice(...word), first: first.state, ending, second: second.samples.length };
}

async function stopped() {
  const sink = new Loudspeaker();
  const text = "This will be stopped before it comes to its end, which is rather far away.";
  const utterance = speech.say(sink);
  utterance.feed(text);
  while (sink.playedMs < 800) await pause(20);
  const ending = await utterance.stop();
  return { text, ending, state: sink.state };
}

async function stoppedLate() {
  const sink = new Loudspeaker();
  const utterance = speech.say(sink);
  utterance.feed("All of this was sent long before it was heard.");
  utterance.finish();
  const { reason } = await utterance.ending;
  while (sink.playedMs < 900) await pause(20);
  return { text: utterance.text, reason, late: await utterance.stop(), state: sink.state };
}

async function refused() {
  return (await speech.say(new Loudspeaker(), { voice: "nobody at all" }).ending);
}

const seen = { whole: await whole(), interrupted: await interrupted(), stopped: await stopped() };
Object.assign(seen, { stoppedLate: await stoppedLate(), refused: await refused() });
speech.close();
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
