// Counting in code points and UTF-16 units, and MessagePack's edges.
import assert from "node:assert/strict";
import { test } from "node:test";

import { CountedText, decode, encode, wholeCharacters } from "../../../web_demo/static/client.js";

test("offsets are turned both ways, wherever the two-unit characters are", () => {
  const text = "a😀b👩‍🚀é𝄞z";
  const counted = new CountedText();
  for (const piece of ["a😀", "b👩", "‍🚀é", "𝄞z"]) counted.append(piece);
  assert.equal(counted.text, text);
  const characters = Array.from(text);
  assert.equal(counted.length, characters.length);
  for (let i = 0; i <= characters.length; i += 1) {
    const units = characters.slice(0, i).join("").length;
    assert.equal(counted.toUtf16(i), units);
    assert.equal(counted.fromUtf16(units), i);
  }
});

test("offsets beyond the text are its ends", () => {
  const counted = new CountedText();
  counted.append("x😀");
  assert.equal(counted.toUtf16(99), 3);
  assert.equal(counted.toUtf16(-1), 0);
  assert.equal(counted.fromUtf16(99), 2);
});

test("half a character at the end waits for its other half", () => {
  const [high, low] = "😀".split("");
  assert.deepEqual(wholeCharacters(`hi ${high}`), ["hi ", high]);
  assert.deepEqual(wholeCharacters(high + low), ["😀", ""]);
  assert.deepEqual(wholeCharacters(""), ["", ""]);
});

test("undefined keys are left out, null ones are sent", () => {
  assert.deepEqual(decode(encode({ a: undefined, b: null, c: 1 })), { b: null, c: 1 });
});

test("what JSON-like values can't hold isn't sent", () => {
  for (const value of [NaN, Infinity, () => 1, Symbol("x"), 2n ** 64n]) assert.throws(() => encode({ value }));
  let deep = [];
  for (let i = 0; i < 100; i += 1) deep = [deep];
  assert.throws(() => encode(deep));
});

test("cut, lying, trailing and unknown bytes are errors, in bounded time", () => {
  const good = encode({ type: "audio", pcm: new Uint8Array(40), list: [1, 2.5, "three"] });
  for (let cut = 0; cut < good.length; cut += 1) assert.throws(() => decode(good.subarray(0, cut)));
  assert.throws(() => decode(Uint8Array.of(...good, 0)));
  assert.throws(() => decode(Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff)));
  assert.throws(() => decode(Uint8Array.of(0xdf, 0xff, 0xff, 0xff, 0xff, 0)));
  assert.throws(() => decode(Uint8Array.of(0xc6, 0xff, 0xff, 0xff, 0xff, 0)));
  assert.throws(() => decode(Uint8Array.of(0xd4, 1, 2)));
  assert.throws(() => decode(Uint8Array.of(0xa2, 0xff, 0xfe)));
  assert.throws(() => decode(new Uint8Array(1000).fill(0x91)));
});

test("a key of a decoded map can't reach an object's prototype", () => {
  const value = decode(encode(JSON.parse('{"__proto__": {"polluted": true}}')));
  assert.equal({}.polluted, undefined);
  assert.equal(value.polluted, undefined);
});
