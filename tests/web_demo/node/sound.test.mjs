// The ring, the cushion, the resampler and the playing, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Cushion, Playout, Resampler, Ring, samplesOf } from "../../../web_demo/static/client.js";

const RATE = 48000;
const constant = (count, value = 1) => new Float32Array(count).fill(value);
const sine = (count, hz, rate) => Float32Array.from({ length: count }, (_, i) => Math.sin((2 * Math.PI * hz * i) / rate));

function pull(playout, count) {
  const blocks = [];
  for (let i = 0; i < count; i += 128) {
    const block = new Float32Array(128);
    playout.pull(block);
    blocks.push(...block);
  }
  return blocks;
}

const largestStep = (samples) => samples.reduce((most, x, i) => (i ? Math.max(most, Math.abs(x - samples[i - 1])) : 0), 0);

// A small generator, so that a failure can be repeated.
function* numbers(seed) {
  let state = seed;
  for (;;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    yield state / 2147483648;
  }
}

test("a ring gives back what it took, in order, around its end and through its growth", () => {
  const chance = numbers(7);
  const ring = new Ring(8, 1000);
  let wrote = 0;
  let read = 0;
  for (let i = 0; i < 2000; i += 1) {
    const count = Math.min(1000 - ring.available, Math.floor(chance.next().value * 40));
    assert.ok(ring.push(Float32Array.from({ length: count }, (_, k) => wrote + k)));
    wrote += count;
    for (let n = Math.floor(chance.next().value * 41); n > 0 && ring.available > 0; n -= 1) {
      assert.equal(ring.shift(), read);
      read += 1;
    }
    assert.equal(ring.available, wrote - read);
  }
});

test("a full ring refuses and keeps what it has", () => {
  const ring = new Ring(4, 10);
  assert.ok(ring.push(Float32Array.of(1, 2, 3)));
  assert.equal(ring.push(new Float32Array(8)), false);
  assert.equal(ring.available, 3);
  assert.equal(ring.shift(), 1);
});

test("a cushion doubles with each gap up to its most and shrinks slowly down to its least", () => {
  const cushion = new Cushion({ ms: 80, leastMs: 60, mostMs: 300 });
  cushion.gap();
  assert.equal(cushion.ms, 160);
  cushion.gap();
  cushion.gap();
  assert.equal(cushion.ms, 300);
  cushion.played(19999);
  assert.equal(cushion.ms, 300);
  cushion.played(1);
  assert.ok(Math.abs(cushion.ms - 270) < 1e-9);
  cushion.played(3600000);
  assert.equal(cushion.ms, 60);
});

test("a gap starts the calm time anew", () => {
  const cushion = new Cushion({ ms: 100 });
  cushion.played(19000);
  cushion.gap();
  cushion.played(19000);
  assert.equal(cushion.ms, 200);
});

test("playing waits for the cushion", () => {
  const playout = new Playout(RATE, 100);
  playout.obey({ verb: "push", samples: constant(4799) });
  assert.ok(pull(playout, 1280).every((x) => x === 0));
  assert.equal(playout.state, "waiting");
  playout.obey({ verb: "push", samples: constant(1) });
  pull(playout, 128);
  assert.equal(playout.state, "playing");
  assert.equal(playout.frames, 128);
});

test("a text shorter than the cushion is played when it has ended", () => {
  const playout = new Playout(RATE, 1000);
  playout.obey({ verb: "push", samples: constant(960) });
  playout.obey({ verb: "end" });
  const heard = pull(playout, 1280);
  assert.equal(heard.filter((x) => x !== 0).length, 960);
  assert.equal(playout.frames, 960);
  assert.equal(playout.state, "finished");
  assert.equal(playout.dries, 0);
});

test("an utterance without a sample finishes", () => {
  const playout = new Playout(RATE, 100);
  playout.obey({ verb: "end" });
  pull(playout, 128);
  assert.equal(playout.state, "finished");
});

test("no start, end, stop, pause or running dry is a step", () => {
  const playout = new Playout(RATE, 20);
  const heard = [];
  const steps = [
    { verb: "push", samples: constant(9600) }, { verb: "pause" }, { verb: "resume" },
    { verb: "push", samples: constant(4800) }, null, null, null, null,
    { verb: "push", samples: constant(9600) }, { verb: "end" }, null, null,
  ];
  for (const step of steps) {
    if (step) playout.obey(step);
    heard.push(...pull(playout, 3840));
  }
  assert.equal(playout.state, "finished");
  assert.equal(playout.frames, 24000);
  assert.ok(largestStep(heard) <= 1 / 280, `a step of ${largestStep(heard)}`);
  const stopped = new Playout(RATE, 0);
  stopped.obey({ verb: "push", samples: constant(48000) });
  const before = pull(stopped, 2560);
  stopped.obey({ verb: "stop" });
  const after = pull(stopped, 2560);
  assert.ok(largestStep([...before, ...after]) <= 1 / 280);
  assert.ok(after.findLastIndex((x) => x !== 0) < RATE * 0.01, "silent within 10 ms");
  assert.equal(stopped.state, "finished");
});

test("what is heard of a pause is counted, and it goes on where it stopped", () => {
  const playout = new Playout(RATE, 0);
  const ramp = Float32Array.from({ length: 48000 }, (_, i) => i / 48000);
  playout.obey({ verb: "push", samples: ramp });
  pull(playout, 12800);
  playout.obey({ verb: "pause" });
  pull(playout, 12800);
  assert.equal(playout.state, "paused");
  const at = playout.frames;
  assert.ok(at > 12800 && at < 12800 + 480);
  playout.obey({ verb: "resume" });
  const after = pull(playout, 6400);
  const settled = after[1000];
  assert.ok(Math.abs(settled - (at + 1000) / 48000) < 1e-3);
});

test("running dry before the end is counted, running out at the end isn't", () => {
  const playout = new Playout(RATE, 20);
  for (let i = 0; i < 3; i += 1) {
    playout.obey({ verb: "push", samples: constant(2400) });
    pull(playout, 6400);
    assert.equal(playout.state, "dry");
  }
  playout.obey({ verb: "end" });
  pull(playout, 256);
  assert.equal(playout.state, "finished");
  assert.equal(playout.dries, 3);
});

for (const [from, to] of [[24000, 48000], [24000, 44100], [22050, 48000], [8000, 44100], [48000, 44100], [44100, 8000]]) {
  test(`resampling ${from} Hz to ${to} Hz keeps length, level and pitch, in blocks as in one piece`, () => {
    const input = sine(from, 440, from);
    const whole = new Resampler(from, to);
    const one = [...whole.push(input), ...whole.flush()];
    assert.equal(one.length, to);
    const chance = numbers(from + to);
    const parts = new Resampler(from, to);
    const many = [];
    for (let at = 0; at < input.length;) {
      const end = at + 1 + Math.floor(chance.next().value * 700);
      many.push(...parts.push(input.subarray(at, end)));
      at = end;
    }
    many.push(...parts.flush());
    assert.deepEqual(many, one);
    const wanted = sine(to, 440, to);
    const margin = Math.ceil(to / 100);
    let worst = 0;
    for (let i = margin; i < to - margin; i += 1) worst = Math.max(worst, Math.abs(one[i] - wanted[i]));
    assert.ok(worst < 2e-3, `off by ${worst}`);
  });
}

test("downsampling lets nothing through that would come back as another pitch", () => {
  const resampler = new Resampler(48000, 8000);
  const heard = resampler.push(sine(48000, 6000, 48000));
  assert.ok(Math.max(...heard.slice(200, -200).map(Math.abs)) < 0.01);
});

test("samples are little-endian, signed, and full scale is one", () => {
  const s16 = Uint8Array.of(9, 0x00, 0x00, 0x00, 0x40, 0x00, 0x80).subarray(1);
  assert.deepEqual([...samplesOf(s16, "s16le")], [0, 0.5, -1]);
  const f32 = new Uint8Array(9);
  new DataView(f32.buffer).setFloat32(1, -0.25, true);
  new DataView(f32.buffer).setFloat32(5, 1, true);
  assert.deepEqual([...samplesOf(f32.subarray(1), "f32le")], [-0.25, 1]);
});
