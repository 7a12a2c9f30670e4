/** The page that speaks live: wires the box, the buttons and the picture to one client. */

import { SpeechClient } from "../client.js";
import { Access } from "./access.js";
import { Choices } from "./choices.js";
import { Chorus } from "./chorus.js";
import { readChat } from "./chat.js";
import { Notices } from "./notices.js";
import { Paper, whereOf } from "./paper.js";
import { LeadChart, Wave } from "./picture.js";
import { ANSWERS, paced, tokens } from "./texts.js";
import { LiveTyping } from "./typing.js";
import { CONNECTION } from "./words.js";

const TYPING_WAIT_MS = 600; // hands pause longer than models
const LOAD_EVERY_MS = 2000;

const byId = (id) => document.getElementById(id);
const box = byId("text");
const access = new Access();
const client = new SpeechClient({ token: () => access.token() });
const choices = new Choices();
const notices = new Notices(client, access);
const paper = new Paper(byId("mirror"));
const wave = new Wave(byId("wave"));
const chart = new LeadChart(byId("lead"));
const chorus = new Chorus(byId("voices"));

let mode = "typing";
let answering = null; // {utterance, text, abort}
let stoppedAt = null;
let gaps = 0;

function speak(options, { quiet = false } = {}) {
  unlock();
  const utterance = client.speak({ ...choices.options, ...options });
  stoppedAt = null;
  // The first segment may still grow after its first frame, and with it the text that counts.
  utterance.addEventListener("segment", ({ detail }) => detail.index === 0 && showFirstSound(utterance));
  utterance.addEventListener("audio", () => showFirstSound(utterance), { once: true });
  utterance.addEventListener("gap", () => {
    gaps += 1;
    byId("figure-gaps").textContent = gaps;
    chart.gap(performance.now() / 1000);
  });
  if (!quiet) utterance.addEventListener("error", ({ detail }) => notices.show(detail));
  utterance.addEventListener("started", () => notices.clear("utterance"));
  return utterance;
}

/** In a gesture's handler: browsers keep the sound off until then. */
async function unlock() {
  if (!(await client.unlock())) notices.silent();
}

function showFirstSound(utterance) {
  if (utterance.firstSoundMs === null) return;
  byId("figure-first").textContent = `${Math.max(1, Math.round(utterance.firstSoundMs))} ms`;
}

// Typing

const typing = new LiveTyping((options) => speak({ wait_ms: TYPING_WAIT_MS, ...options }));
let entered = false;

function typed() {
  stoppedAt = null;
  showHeard("");
  typing.input(box.value, entered);
  entered = false;
  byId("again").disabled = box.value.trim() === "";
}

box.addEventListener("keydown", ({ key, isComposing }) => {
  if (!client.player.running) unlock();
  entered = key === "Enter" && !isComposing;
});
box.addEventListener("input", ({ isComposing, inputType }) => {
  if (mode !== "typing") return;
  entered ||= inputType === "insertLineBreak" || inputType === "insertParagraph";
  // An input method's draft is no text yet.
  if (!isComposing) typed();
});
box.addEventListener("compositionend", () => mode === "typing" && typed());
box.addEventListener("blur", () => mode === "typing" && document.hasFocus() && typing.leave());
byId("again").addEventListener("click", () => {
  showHeard("");
  typing.again();
});

// A model's answer

ANSWERS.forEach(({ title }, i) => byId("answer").append(new Option(title, i)));
const pace = () => Number(byId("rate").value);
byId("rate").addEventListener("input", () => (byId("rate-out").value = `${pace()} tokens/s`));

async function answer(increments, abort) {
  await stop();
  showHeard("");
  const utterance = speak({ markup: "markdown" });
  answering = { utterance, abort };
  utterance.done.then(() => abort.abort());
  try {
    await utterance.pipe(increments);
  } catch (error) {
    utterance.end();
    if (!abort.signal.aborted) notices.show({ code: error.code, message: error.message });
  }
}

byId("play").addEventListener("click", () => {
  const abort = new AbortController();
  answer(paced(tokens(ANSWERS[byId("answer").value].text), pace, abort.signal), abort);
});
byId("chat").addEventListener("submit", (event) => {
  event.preventDefault();
  const [url, model, key, question] = ["url", "model", "key", "question"].map((id) => byId(`chat-${id}`).value.trim());
  const abort = new AbortController();
  answer(readChat({ url, model, key, question }, abort.signal), abort);
});

// Several at once

let chorusAbort = new AbortController();
byId("many").addEventListener("input", () => (byId("many-out").value = byId("many").value));
byId("start-chorus").addEventListener("click", async () => {
  await stop();
  chorusAbort = new AbortController();
  const count = Number(byId("many").value);
  await client.unlock();
  client.player.mixer.gain.value = 1 / Math.sqrt(count);
  await chorus.start(count, speak, choices, chorusAbort.signal);
});

// Stopping

const LAST_WORDS = 9;

function showHeard(text) {
  const place = byId("heard");
  if (!text) return place.replaceChildren();
  const words = text.trim().split(/\s+/u);
  const tail = `${words.length > LAST_WORDS ? "… " : ""}${words.slice(-LAST_WORDS).join(" ")}`;
  place.replaceChildren("Heard up to here: ", Object.assign(document.createElement("b"), { textContent: `“${tail}”` }));
  return place;
}

async function stop() {
  answering?.abort.abort();
  chorusAbort.abort();
  client.player.mixer?.gain.setTargetAtTime(1, client.player.time + 0.1, 0.01);
  if (mode === "chorus") return void (await client.stopAll());
  const speaking = client.utterances.some(({ state }) => state !== "finished");
  const at = mode === "answer" ? answering && (await answering.utterance.stop()).end : await typing.stop();
  if (at === null || !speaking) return;
  stoppedAt = at;
  const text = shownText().slice(0, at);
  if (text.trim()) showHeard(text);
  else byId("heard").textContent = "Stopped before a word was heard.";
}

byId("stop").addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || byId("stop").disabled) return;
  event.preventDefault();
  stop();
});

// Which way the words come

function shownText() {
  return mode === "answer" ? (answering?.utterance.text ?? "") : box.value;
}

async function choose(value) {
  if (value === mode) return;
  await stop();
  mode = value;
  stoppedAt = null;
  showHeard("");
  answering = null;
  for (const part of document.querySelectorAll("[data-mode]")) part.hidden = part.dataset.mode !== mode;
  byId("paper").hidden = mode === "chorus";
  byId("voices").hidden = mode !== "chorus";
  box.readOnly = mode !== "typing";
  box.placeholder = mode === "typing" ? "Write a sentence…" : "The answer appears here as it is written.";
  if (mode !== "typing") typing.input("");
  box.value = "";
}

for (const radio of document.querySelectorAll("[name=mode]")) {
  radio.addEventListener("change", () => radio.checked && choose(radio.value));
}

// The connection

client.addEventListener("state", ({ detail: { state, error } }) => {
  byId("connection").textContent = CONNECTION[state];
  byId("connection").dataset.state = state;
  notices.connection(state, error);
});
client.addEventListener("hello", ({ detail: hello }) => {
  choices.load(access, hello);
  showLoad(hello.load);
});
client.addEventListener("error", ({ detail }) => notices.show(detail));
client.player.addEventListener("change", () => {
  notices.sound(client.player);
  const { mode: way } = client.player;
  byId("path").textContent = { worklet: "Plays on the browser's audio thread.", scheduled: "Plays by scheduled blocks." }[way] ?? "";
});

function showLoad(load, streams) {
  byId("figure-load").textContent = `${Math.round(load * 100)} %`;
  if (streams) byId("figure-streams").textContent = streams;
}

async function watchLoad() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOAD_EVERY_MS));
    if (document.hidden || client.state !== "open") continue;
    const health = await access.read("health");
    if (!health) return; // it takes an admin's key; what `hello` said stays
    showLoad(health.load, `${health.in_flight} of ${health.max_streams} speaking`);
  }
}

// The picture

function draw() {
  const nowS = performance.now() / 1000;
  const live = client.utterances.filter(({ state }) => state !== "finished");
  const leadS = Math.max(0, ...live.map(({ inHandMs }) => inHandMs)) / 1000;
  byId("stop").disabled = live.length === 0;
  if (live.length > 0 || !chart.empty) {
    chart.draw(leadS, client.player.cushion.ms / 1000, nowS);
    byId("figure-lead").textContent = `${leadS.toFixed(1)} s`;
  }
  if (live.length > 0 || wave.moving) wave.draw(client.player, nowS);
  if (mode === "chorus") chorus.draw();
  else drawPaper();
  requestAnimationFrame(draw);
}

function drawPaper() {
  const text = shownText();
  if (mode === "answer" && box.value !== text) box.value = text;
  const where =
    mode === "answer" ? whereOf(answering?.utterance) : whereOf(typing.utterance, typing.base, typing.heard);
  paper.show(text, { ...where, stoppedAt });
}

byId("module-url").textContent = new URL("../client.js", import.meta.url).href;
wave.draw(client.player, 0);
chart.draw(0, client.player.cushion.ms / 1000, performance.now() / 1000);
draw();
client.connect().then(watchLoad);
