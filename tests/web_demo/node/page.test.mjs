// The page's own decisions: what of a text box is sent, how texts are cut into tokens, what is shown.
import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { readChat } from "../../../web_demo/static/chat.js";
import { partsOf } from "../../../web_demo/static/paper.js";
import { ANSWERS, CHORUS, tokens } from "../../../web_demo/static/texts.js";
import { LiveTyping, settledLength } from "../../../web_demo/static/typing.js";

/** Stands for an utterance: keeps what it is told; `heardUnits` and `state` are the test's to set. */
class FakeUtterance {
  text = "";
  heardUnits = 0;
  state = "playing";
  closed = false;
  flushes = 0;
  played = new Promise((resolve) => (this.finish = () => resolve((this.state = "finished"))));

  constructor(options) {
    this.options = options;
  }
  feed(text) {
    assert.ok(!this.closed, "fed after its end");
    this.text += text;
  }
  flush() {
    this.flushes += 1;
  }
  end() {
    this.closed = true;
  }
  async stop() {
    this.end();
    this.finish();
    return { end: this.heardUnits };
  }
}

function begin() {
  const opened = [];
  const typing = new LiveTyping((options) => opened.push(new FakeUtterance(options)) && opened.at(-1));
  const type = (text) => {
    let value = "";
    for (const character of text) typing.input((value += character));
  };
  return { opened, typing, type };
}

test("the word under the fingers is held, all before it is sent", () => {
  assert.equal(settledLength("Hello the"), 6);
  assert.equal(settledLength("Hello there."), 12);
  assert.equal(settledLength("don't"), 0);
  assert.equal(settledLength("こんにちは"), 5);
  assert.equal(settledLength("สวัสดี"), 6);
});

test("resting hands send the word, too", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { opened, type } = begin();
  type("Hello the");
  assert.equal(opened[0].text, "Hello ");
  t.mock.timers.tick(500);
  assert.equal(opened[0].text, "Hello the");
  assert.equal(opened.length, 1);
});

test("a slip in the word under the fingers costs nothing", () => {
  const { opened, typing, type } = begin();
  type("I see teh");
  for (const value of ["I see te", "I see t", "I see th", "I see the", "I see the "]) typing.input(value);
  assert.equal(opened.length, 1);
  assert.equal(opened[0].text, "I see the ");
});

test("an edit of what was sent replaces it from the last word heard", () => {
  const { opened, typing, type } = begin();
  type("One two. The car is red. ");
  opened[0].heardUnits = 8;
  typing.input("One two. The car is blue. ");
  assert.equal(opened.length, 2);
  assert.equal(opened[1].options.replaces, opened[0]);
  assert.equal(opened[1].text, " The car is blue. ");
  assert.equal(typing.base, 8);
});

test("an edit of what was heard changes nothing that is still to come", () => {
  const { opened, typing, type } = begin();
  type("One two. The car is red. ");
  opened[0].heardUnits = 8;
  typing.input("One hundred two. The car is red. ");
  assert.equal(opened[1].text, " The car is red. ");
});

test("an emptied box is silence", async () => {
  const { opened, typing, type } = begin();
  type("One two. ");
  typing.input("");
  assert.equal(opened.length, 1);
  assert.ok(opened[0].closed);
  type("New. ");
  assert.equal(opened[1].text, "New. ");
});

test("Enter sends all and flushes, leaving sends all and ends", () => {
  const { opened, typing, type } = begin();
  type("no stop");
  typing.input("no stop\n", true);
  assert.equal(opened[0].text, "no stop\n");
  assert.equal(opened[0].flushes, 1);
  typing.input("no stop\nand mo");
  typing.leave();
  assert.equal(opened[0].text, "no stop\nand mo");
  assert.ok(opened[0].closed);
});

test("what is written after leaving is spoken after what is still heard", async () => {
  const { opened, typing, type } = begin();
  type("First. ");
  typing.leave();
  typing.input("First. Second. ");
  assert.equal(opened.length, 1);
  opened[0].finish();
  await opened[0].played;
  await Promise.resolve();
  assert.equal(opened.length, 2);
  assert.equal(opened[1].text, "Second. ");
  assert.equal(opened[1].options.replaces, undefined);
});

test("after a stop the rest stays unsaid, and new words are spoken", async () => {
  const { opened, typing, type } = begin();
  type("One two three. ");
  opened[0].heardUnits = 7;
  assert.equal(await typing.stop(), 7);
  typing.input("One two three. Four. ");
  assert.equal(opened.at(-1).text, "Four. ");
});

test("the tokens of a text are the text", () => {
  for (const text of [...CHORUS, ...ANSWERS.map((answer) => answer.text), "a  b\n", "😀😀😀😀😀😀 é"]) {
    assert.equal(tokens(text).join(""), text);
    assert.ok(tokens(text).every((token) => token.trim().length <= 10));
  }
});

test("what is shown is the text, whatever is marked", () => {
  const text = "One two three four.";
  const segment = { start: 0, end: 19 };
  const word = { start: 4, end: 7 };
  for (const heard of [0, 3, 7, 19, 99]) {
    for (const where of [{ heard }, { heard, segment }, { heard, segment, word }, { stoppedAt: 7 }]) {
      assert.equal(partsOf(text, where).map(([, part]) => part).join(""), text);
    }
  }
  assert.deepEqual(partsOf(text, { heard: 3, segment, word }), [
    ["speaking", "One"], ["speaking pending", " "], ["word", "two"], ["speaking pending", " three four."],
  ]);
  assert.deepEqual(partsOf(text, { stoppedAt: 7 }), [["", "One two "], ["here", ""], ["unsaid", "three four."]]);
});

const answering = (chunks, init) =>
  mock.method(globalThis, "fetch", async () => new Response(ReadableStream.from(chunks.map((c) => new TextEncoder().encode(c))), init));

test("a model's answer is read as it comes, however its lines are cut", async () => {
  const line = (content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;
  const whole = `: hello\n${line("Hel")}${line("lo, wörld")}data: {"choices":[]}\n\ndata: [DONE]\n\n${line("never")}`;
  const bytes = whole.match(/[\s\S]{1,7}/gu);
  const fetched = answering(bytes);
  const request = { url: "http://model.test/v1/", model: "m", key: "k", question: "Q" };
  const parts = await Array.fromAsync?.(readChat(request, new AbortController().signal)) ?? await collect(readChat(request, new AbortController().signal));
  assert.deepEqual(parts, ["Hel", "lo, wörld"]);
  const [address, { headers, body }] = fetched.mock.calls[0].arguments;
  assert.equal(address, "http://model.test/v1/chat/completions");
  assert.equal(headers.Authorization, "Bearer k");
  assert.equal(JSON.parse(body).stream, true);
  fetched.mock.restore();
});

async function collect(iterable) {
  const all = [];
  for await (const item of iterable) all.push(item);
  return all;
}

test("a refusal of the model's endpoint is told in its own words", async () => {
  const fetched = answering(['{"error": {"message": "no such model"}}'], { status: 404 });
  await assert.rejects(collect(readChat({ url: "http://model.test/v1", model: "m", question: "Q" }, new AbortController().signal)),
    { code: "chat_refused", message: "It says: no such model" });
  fetched.mock.restore();
});
