/**
 * saystream's browser client: text goes in while it is written, speech is heard while it is made.
 *
 * One module without dependencies. Loaded by a page it offers `SpeechClient`; loaded by an AudioWorklet (the player
 * gives the worklet this file's own address) it registers the processor that plays. The sections are: MessagePack,
 * text, sound, the audio thread, the player, an utterance, a connection, the client.
 */

export const SUBPROTOCOL = "saystream.v1.msgpack";
const PROCESSOR = "saystream-playout";
// An AudioWorklet has no DOM; the classes below must still be definable there.
const Events = globalThis.EventTarget ?? class {};

// ---- MessagePack: the types that the protocol uses, and no extension types ----

const DEEPEST = 64;

class Writer {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  finished() {
    return this.#bytes.slice(0, this.#length);
  }

  #room(count) {
    const at = this.#length;
    this.#length += count;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#length, this.#bytes.length * 2));
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return at;
  }

  #head(tag, size, number) {
    const at = this.#room(1 + size);
    this.#view.setUint8(at, tag);
    if (size === 1) this.#view.setUint8(at + 1, number);
    if (size === 2) this.#view.setUint16(at + 1, number);
    if (size === 4) this.#view.setUint32(at + 1, number);
  }

  #sized(count, tag8, tag16) {
    if (tag8 !== null && count < 0x100) this.#head(tag8, 1, count);
    else if (count < 0x10000) this.#head(tag16, 2, count);
    else this.#head(tag16 + 1, 4, count);
  }

  #raw(bytes) {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  #big(value) {
    if (value < -(2n ** 63n) || value >= 2n ** 64n) throw new RangeError(`${value} has more than 64 bits`);
    const at = this.#room(9);
    this.#view.setUint8(at, value < 0n ? 0xd3 : 0xcf);
    this.#view.setBigUint64(at + 1, BigInt.asUintN(64, value));
  }

  #number(value) {
    if (!Number.isFinite(value)) throw new TypeError(`${value} can't be sent`);
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
      const at = this.#room(9);
      this.#view.setUint8(at, 0xcb);
      this.#view.setFloat64(at + 1, value);
    } else if (value >= 0) {
      if (value < 0x80) this.#head(value, 0);
      else if (value < 0x100) this.#head(0xcc, 1, value);
      else if (value < 0x10000) this.#head(0xcd, 2, value);
      else if (value < 0x100000000) this.#head(0xce, 4, value);
      else this.#big(BigInt(value));
    } else if (value >= -0x20) this.#head(0x100 + value, 0);
    else if (value >= -0x80) this.#head(0xd0, 1, value & 0xff);
    else if (value >= -0x8000) this.#head(0xd1, 2, value & 0xffff);
    else if (value >= -0x80000000) this.#head(0xd2, 4, value >>> 0);
    else this.#big(BigInt(value));
  }

  #map(object, depth) {
    const entries = Object.entries(object).filter(([, value]) => value !== undefined);
    if (entries.length < 16) this.#head(0x80 | entries.length, 0);
    else this.#sized(entries.length, null, 0xde);
    for (const [key, value] of entries) {
      this.value(key, depth + 1);
      this.value(value, depth + 1);
    }
  }

  value(value, depth = 0) {
    if (depth > DEEPEST) throw new RangeError("nested too deep");
    if (value === null) this.#head(0xc0, 0);
    else if (typeof value === "boolean") this.#head(value ? 0xc3 : 0xc2, 0);
    else if (typeof value === "number") this.#number(value);
    else if (typeof value === "bigint") this.#big(value);
    else if (typeof value === "string") {
      const bytes = new TextEncoder().encode(value);
      if (bytes.length < 32) this.#head(0xa0 | bytes.length, 0);
      else this.#sized(bytes.length, 0xd9, 0xda);
      this.#raw(bytes);
    } else if (value instanceof Uint8Array) {
      this.#sized(value.length, 0xc4, 0xc5);
      this.#raw(value);
    } else if (Array.isArray(value)) {
      if (value.length < 16) this.#head(0x90 | value.length, 0);
      else this.#sized(value.length, null, 0xdc);
      for (const item of value) this.value(item, depth + 1);
    } else if (typeof value === "object") this.#map(value, depth);
    else throw new TypeError(`a ${typeof value} can't be sent`);
  }
}

class Reader {
  #bytes;
  #view;
  #at = 0;

  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get rest() {
    return this.#bytes.length - this.#at;
  }

  #take(count) {
    if (count > this.rest) throw new RangeError("the message is cut short");
    const at = this.#at;
    this.#at += count;
    return at;
  }

  #count(size) {
    const at = this.#take(size);
    return size === 1 ? this.#view.getUint8(at) : size === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  #raw(count) {
    const at = this.#take(count);
    return this.#bytes.subarray(at, at + count);
  }

  #string(count) {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.#raw(count));
  }

  #list(count, depth) {
    if (count > this.rest) throw new RangeError("the message is cut short");
    return Array.from({ length: count }, () => this.value(depth + 1));
  }

  #map(count, depth) {
    if (count > this.rest) throw new RangeError("the message is cut short");
    const entries = [];
    for (let i = 0; i < count; i += 1) entries.push([this.value(depth + 1), this.value(depth + 1)]);
    return Object.fromEntries(entries);
  }

  #big(value) {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }

  value(depth = 0) {
    if (depth > DEEPEST) throw new RangeError("nested too deep");
    const tag = this.#count(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return this.#map(tag & 0x0f, depth);
    if (tag < 0xa0) return this.#list(tag & 0x0f, depth);
    if (tag < 0xc0) return this.#string(tag & 0x1f);
    if (tag >= 0xe0) return tag - 0x100;
    switch (tag) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.#raw(this.#count(1 << (tag - 0xc4)));
      case 0xca: return this.#view.getFloat32(this.#take(4));
      case 0xcb: return this.#view.getFloat64(this.#take(8));
      case 0xcc: case 0xcd: case 0xce: return this.#count(1 << (tag - 0xcc));
      case 0xcf: return this.#big(this.#view.getBigUint64(this.#take(8)));
      case 0xd0: return this.#view.getInt8(this.#take(1));
      case 0xd1: return this.#view.getInt16(this.#take(2));
      case 0xd2: return this.#view.getInt32(this.#take(4));
      case 0xd3: return this.#big(this.#view.getBigInt64(this.#take(8)));
      case 0xd9: case 0xda: case 0xdb: return this.#string(this.#count(1 << (tag - 0xd9)));
      case 0xdc: case 0xdd: return this.#list(this.#count(2 << (tag - 0xdc)), depth);
      case 0xde: case 0xdf: return this.#map(this.#count(2 << (tag - 0xde)), depth);
      default: throw new TypeError(`type 0x${tag.toString(16)} isn't used by the protocol`);
    }
  }
}

/** One value as MessagePack; keys whose value is `undefined` are left out. */
export function encode(value) {
  const writer = new Writer();
  writer.value(value);
  return writer.finished();
}

/** The value in `bytes`. Binary parts are views of `bytes`, not copies; integers past 2**53 are BigInts. */
export function decode(bytes) {
  const reader = new Reader(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes));
  const value = reader.value();
  if (reader.rest > 0) throw new RangeError("there are bytes after the message");
  return value;
}

// ---- Text: the server counts code points, JavaScript counts UTF-16 units ----

/** A text that grows, with both ways of counting: `text.length` in UTF-16 units, `length` in code points. */
export class CountedText {
  text = "";
  #astral = []; // the code point index of each character that takes two units

  get length() {
    return this.text.length - this.#astral.length;
  }

  append(piece) {
    let index = this.length;
    for (const character of piece) {
      if (character.length === 2) this.#astral.push(index);
      index += 1;
    }
    this.text += piece;
  }

  /** How many of the two-unit characters satisfy `before`, which holds for a leading part of them. */
  #count(before) {
    let low = 0;
    let high = this.#astral.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  toUtf16(codePoints) {
    const bounded = Math.max(0, Math.min(codePoints, this.length));
    return bounded + this.#count((k) => this.#astral[k] < bounded);
  }

  fromUtf16(units) {
    const bounded = Math.max(0, Math.min(units, this.text.length));
    return bounded - this.#count((k) => this.#astral[k] + k + 1 < bounded);
  }
}

/** Splits off a high surrogate at the end: its other half comes with the next increment. */
export function wholeCharacters(text) {
  const last = text.charCodeAt(text.length - 1);
  const torn = last >= 0xd800 && last <= 0xdbff;
  return torn ? [text.slice(0, -1), text.slice(-1)] : [text, ""];
}

function* pieces(text, mostChars) {
  let piece = "";
  let count = 0;
  for (const character of text) {
    piece += character;
    count += 1;
    if (count === mostChars) {
      yield piece;
      piece = "";
      count = 0;
    }
  }
  if (piece) yield piece;
}

// ---- Sound ----

/** Samples between -1 and 1 out of an `audio` message's bytes. */
export function samplesOf(pcm, format) {
  const view = new DataView(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  if (format === "f32le") {
    return Float32Array.from({ length: pcm.byteLength / 4 }, (_, i) => view.getFloat32(i * 4, true));
  }
  const samples = new Float32Array(pcm.byteLength / 2);
  for (let i = 0; i < samples.length; i += 1) samples[i] = view.getInt16(i * 2, true) / 32768;
  return samples;
}

const greatestCommonDivisor = (a, b) => (b === 0 ? a : greatestCommonDivisor(b, a % b));

/**
 * Changes the sample rate of a stream with its state kept between blocks: a polyphase low-pass (Blackman-windowed
 * sinc, 16 zero crossings to each side). Positions are whole numbers, so nothing drifts however long it runs.
 */
export class Resampler {
  #up;
  #down;
  #width;
  #kernel;
  #held;
  #start = 0; // in `held`: the first input sample under the filter
  #phase = 0;
  #taken = 0;
  #given = 0;

  constructor(fromHz, toHz) {
    const common = greatestCommonDivisor(fromHz, toHz);
    this.#up = toHz / common;
    this.#down = fromHz / common;
    const cutoff = this.#up === this.#down ? 1 : Math.min(1, toHz / fromHz) * 0.95;
    const half = Math.ceil(16 / Math.min(1, toHz / fromHz));
    this.#width = half * 2;
    this.#kernel = new Float32Array(this.#up * this.#width);
    for (let phase = 0; phase < this.#up; phase += 1) this.#tabulate(phase, half, cutoff);
    this.#held = new Float32Array(half - 1);
  }

  #tabulate(phase, half, cutoff) {
    const row = this.#kernel.subarray(phase * this.#width, (phase + 1) * this.#width);
    let sum = 0;
    for (let tap = 0; tap < row.length; tap += 1) {
      const x = tap - half + 1 - phase / this.#up;
      const window = 0.42 + 0.5 * Math.cos((Math.PI * x) / half) + 0.08 * Math.cos((2 * Math.PI * x) / half);
      const sinc = x === 0 ? cutoff : Math.sin(Math.PI * cutoff * x) / (Math.PI * x);
      row[tap] = Math.abs(x) >= half ? 0 : window * sinc;
      sum += row[tap];
    }
    for (let tap = 0; tap < row.length; tap += 1) row[tap] /= sum; // a constant stays that constant
  }

  push(samples) {
    this.#taken += samples.length;
    if (this.#up === this.#down) return samples;
    return this.#filter(samples, Infinity);
  }

  /** What is still under way, with silence after it. */
  flush() {
    if (this.#up === this.#down) return new Float32Array(0);
    const whole = Math.ceil((this.#taken * this.#up) / this.#down);
    return this.#filter(new Float32Array(this.#width), whole - this.#given);
  }

  #filter(samples, most) {
    const input = new Float32Array(this.#held.length + samples.length);
    input.set(this.#held);
    input.set(samples, this.#held.length);
    const output = [];
    while (this.#start + this.#width <= input.length && output.length < most) {
      const row = this.#phase * this.#width;
      let sum = 0;
      for (let tap = 0; tap < this.#width; tap += 1) sum += input[this.#start + tap] * this.#kernel[row + tap];
      output.push(sum);
      this.#phase += this.#down;
      this.#start += Math.floor(this.#phase / this.#up);
      this.#phase %= this.#up;
    }
    const used = Math.min(this.#start, input.length);
    this.#held = input.slice(used);
    this.#start -= used;
    this.#given += output.length;
    return Float32Array.from(output);
  }
}

/** First in, first out, for samples; doubles when full, up to `mostFrames`, past which `push` refuses. */
export class Ring {
  #samples;
  #mostFrames;
  #first = 0;
  available = 0;

  constructor(frames, mostFrames) {
    this.#samples = new Float32Array(frames);
    this.#mostFrames = mostFrames;
  }

  push(samples) {
    const wanted = this.available + samples.length;
    if (wanted > this.#mostFrames) return false;
    if (wanted > this.#samples.length) this.#grow(wanted);
    const at = (this.#first + this.available) % this.#samples.length;
    const untilEnd = Math.min(samples.length, this.#samples.length - at);
    this.#samples.set(samples.subarray(0, untilEnd), at);
    this.#samples.set(samples.subarray(untilEnd), 0);
    this.available = wanted;
    return true;
  }

  #grow(wanted) {
    const larger = new Float32Array(Math.min(this.#mostFrames, Math.max(wanted, this.#samples.length * 2)));
    const untilEnd = Math.min(this.available, this.#samples.length - this.#first);
    larger.set(this.#samples.subarray(this.#first, this.#first + untilEnd));
    larger.set(this.#samples.subarray(0, this.available - untilEnd), untilEnd);
    this.#samples = larger;
    this.#first = 0;
  }

  shift() {
    const sample = this.#samples[this.#first];
    this.#first = (this.#first + 1) % this.#samples.length;
    this.available -= 1;
    return sample;
  }
}

/**
 * How much sound must be in hand before playing starts. Doubles with a gap that wasn't the text's fault, shrinks by a
 * tenth for each twenty seconds without one.
 */
export class Cushion {
  #calmMs = 0;

  constructor({ ms = 120, leastMs = 60, mostMs = 1000 } = {}) {
    this.ms = ms;
    this.leastMs = leastMs;
    this.mostMs = mostMs;
  }

  gap() {
    this.#calmMs = 0;
    this.ms = Math.min(this.mostMs, this.ms * 2);
  }

  played(ms) {
    this.#calmMs += ms;
    while (this.#calmMs >= 20000) {
      this.#calmMs -= 20000;
      this.ms = Math.max(this.leastMs, this.ms * 0.9);
    }
  }
}

const FADE_S = 0.006;
const LONGEST_S = 120;

/**
 * Plays one utterance out of a ring, block by block, and knows how far it is. It runs on the audio thread (or before
 * it, in the fallback). Any start, stop, pause, end and any running dry is a short ramp, never a step.
 *
 * `state`: `waiting` (for the cushion), `playing`, `dry` (ran empty before the end), `paused`, `finished`.
 */
export class Playout {
  state = "waiting";
  frames = 0; // played so far
  dries = 0; // how often it ran empty before the end
  overrun = false;
  #ring;
  #rate;
  #cushionFrames = 0;
  #ramp;
  #gain = 0;
  #rolling = false;
  #ended = false;
  #halt = ""; // "pause" or "stop" while the ramp down runs, and after it

  constructor(rateHz, cushionMs) {
    this.#rate = rateHz;
    this.#ring = new Ring(rateHz * 4, rateHz * LONGEST_S);
    this.#ramp = 1 / Math.round(FADE_S * rateHz);
    this.#setCushion(cushionMs);
  }

  get inHand() {
    return this.#ring.available;
  }

  #setCushion(ms) {
    this.#cushionFrames = Math.round((ms / 1000) * this.#rate);
  }

  obey(command) {
    switch (command.verb) {
      case "push":
        if (!this.#ring.push(command.samples)) this.overrun = true;
        break;
      case "end":
        this.#ended = true;
        break;
      case "stop":
        this.#halt = "stop";
        break;
      case "pause":
        this.#halt ||= "pause";
        break;
      case "resume":
        if (this.#halt === "pause") this.#halt = "";
        if (this.state === "paused") this.state = "waiting";
        break;
      case "cushion":
        this.#setCushion(command.ms);
        break;
    }
  }

  /** Fills `out` with the next samples, or with silence. */
  pull(out) {
    let filled = 0;
    if (!this.#rolling) this.#consider();
    while (this.#rolling && filled < out.length) {
      const full = this.#halt ? this.#gain - this.#ramp : this.#gain + this.#ramp;
      // Running low ramps down, too: more may come in time, and then it ramps up again.
      this.#gain = Math.max(0, Math.min(full, 1, this.#ring.available * this.#ramp));
      if (this.#halt && this.#gain === 0) this.#rolling = false;
      else {
        out[filled] = this.#ring.shift() * this.#gain;
        filled += 1;
        if (this.#ring.available === 0) this.#ranEmpty();
      }
    }
    out.fill(0, filled);
    this.frames += filled;
    if (!this.#rolling && this.#halt) this.state = this.#halt === "stop" ? "finished" : "paused";
  }

  #consider() {
    const enough = this.#ring.available >= (this.#ended ? 1 : Math.max(1, this.#cushionFrames));
    if (this.state === "finished" || this.#halt) return;
    if (enough) {
      this.#rolling = true;
      this.#gain = 0;
      this.state = "playing";
    } else if (this.#ended) this.state = "finished";
  }

  #ranEmpty() {
    this.#rolling = false;
    if (this.#ended) this.state = "finished";
    else {
      this.state = "dry";
      this.dries += 1;
    }
  }

  report(time) {
    const { frames, dries, state, inHand, overrun } = this;
    return { frames, dries, state, inHand, overrun, time };
  }
}

// ---- The audio thread ----

if (typeof globalThis.registerProcessor === "function") {
  const REPORT_S = 0.2;
  registerProcessor(
    PROCESSOR,
    class extends AudioWorkletProcessor {
      #lastState = "waiting";
      #lastTime = 0;

      constructor({ processorOptions }) {
        super();
        this.playout = new Playout(sampleRate, processorOptions.cushionMs);
        this.port.onmessage = ({ data }) => this.playout.obey(data);
      }

      process(_inputs, [[out]]) {
        this.playout.pull(out);
        const { state } = this.playout;
        if (state !== this.#lastState || currentTime - this.#lastTime >= REPORT_S) {
          this.#lastState = state;
          this.#lastTime = currentTime;
          this.port.postMessage(this.playout.report(currentTime + out.length / sampleRate));
        }
        return state !== "finished";
      }
    },
  );
}

// ---- The player ----

/** Plays a track on the audio thread. */
class WorkletOutput {
  #node;

  constructor(context, destination, cushionMs, onReport) {
    this.#node = new AudioWorkletNode(context, PROCESSOR, {
      numberOfInputs: 0,
      outputChannelCount: [1],
      processorOptions: { cushionMs },
    });
    this.#node.connect(destination);
    this.#node.port.onmessage = ({ data }) => {
      if (data.state === "finished") this.#node.disconnect();
      onReport(data);
    };
  }

  obey(command) {
    this.#node.port.postMessage(command, command.samples ? [command.samples.buffer] : []);
  }
}

/**
 * Plays a track without an audio thread: blocks are scheduled a little ahead, each exactly where the one before ends.
 * A hidden page's timers fire once a second at most, hence the longer reach there.
 */
class ScheduledOutput {
  static #BLOCK = 1024;
  static #TICK_MS = 40;
  #context;
  #playout;
  #gain;
  #onReport;
  #timer;
  #nextTime = 0;
  #scheduled = []; // {endTime, frames, source}: blocks that aren't over yet
  #stopped = false;

  constructor(context, destination, cushionMs, onReport) {
    this.#context = context;
    this.#playout = new Playout(context.sampleRate, cushionMs);
    this.#gain = context.createGain();
    this.#gain.connect(destination);
    this.#onReport = onReport;
    this.#timer = setInterval(() => this.#tick(), ScheduledOutput.#TICK_MS);
  }

  obey(command) {
    this.#playout.obey(command);
    if (command.verb === "stop") this.#silence();
    else this.#tick();
  }

  #silence() {
    const now = this.#context.currentTime;
    this.#stopped = true;
    this.#gain.gain.setTargetAtTime(0, now, FADE_S / 3);
    for (const { source } of this.#scheduled) source.stop(now + FADE_S * 2);
    this.#finish();
  }

  #finish() {
    clearInterval(this.#timer);
    this.#onReport({ ...this.#report(), state: "finished" });
  }

  #tick() {
    if (this.#stopped || this.#context.state !== "running") return;
    const now = this.#context.currentTime;
    const reach = now + (globalThis.document?.hidden ? 2.5 : 0.15);
    this.#scheduled = this.#scheduled.filter(({ endTime }) => endTime > now);
    if (this.#nextTime < now) this.#nextTime = now + 0.02;
    while (this.#nextTime < reach && this.#schedule());
    const over = this.#playout.state === "finished" && this.#scheduled.length === 0;
    if (over) this.#finish();
    else this.#onReport(this.#report());
  }

  #schedule() {
    const before = this.#playout.frames;
    const block = new Float32Array(ScheduledOutput.#BLOCK);
    this.#playout.pull(block);
    const frames = this.#playout.frames - before;
    if (frames === 0) return false;
    const buffer = this.#context.createBuffer(1, block.length, this.#context.sampleRate);
    buffer.copyToChannel(block, 0);
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#gain);
    source.start(this.#nextTime);
    this.#nextTime += block.length / this.#context.sampleRate;
    this.#scheduled.push({ endTime: this.#nextTime, frames, source });
    return this.#playout.state === "playing";
  }

  #report() {
    const time = this.#context.currentTime;
    const rate = this.#context.sampleRate;
    const ahead = this.#scheduled.reduce(
      (sum, { endTime, frames }) => sum + Math.max(0, Math.min(frames, Math.round((endTime - time) * rate))), 0);
    const report = this.#playout.report(time);
    const late = ahead > 0 && report.state !== "waiting" ? "playing" : report.state;
    return { ...report, frames: report.frames - ahead, inHand: report.inHand + ahead, state: late };
  }
}

/** One utterance's way to the ear. Commands that come before the output exists wait for it. */
class Track {
  #player;
  #output = null;
  #early = [];
  #pushed = 0; // frames
  #report = { frames: 0, dries: 0, state: "waiting", inHand: 0, overrun: false, time: 0 };
  #resampler;
  #onReport;

  constructor(player, rateHz, { pan, onReport }) {
    this.#player = player;
    this.#onReport = onReport;
    this.#resampler = new Resampler(rateHz, player.rateHz);
    this.open(pan);
  }

  async open(pan) {
    this.#output = await this.#player.output(pan, (report) => this.#heard(report));
    for (const command of this.#early.splice(0)) this.#output.obey(command);
  }

  #heard(report) {
    this.#report = report;
    this.#onReport(this.report);
  }

  get report() {
    return { ...this.#report, state: this.#player.running ? this.#report.state : "paused" };
  }

  /** How far the listener has heard, in milliseconds of the utterance. */
  get playedMs() {
    const { frames, state, time } = this.#report;
    const { rateHz, latencyS } = this.#player;
    if (state !== "playing") return (frames / rateHz) * 1000;
    const since = Math.max(0, (this.#player.time - time) * rateHz);
    return Math.max(0, Math.min(frames + since, this.#pushed) / rateHz - latencyS) * 1000;
  }

  #send(command) {
    if (this.#output) this.#output.obey(command);
    else this.#early.push(command);
  }

  push(samples) {
    this.#deliver(this.#resampler.push(samples));
  }

  #deliver(samples) {
    if (samples.length === 0) return;
    this.#pushed += samples.length;
    this.#send({ verb: "push", samples: samples.slice() });
  }

  end() {
    this.#deliver(this.#resampler.flush());
    this.#send({ verb: "end" });
  }

  stop() {
    this.#send({ verb: "stop" });
  }

  pause() {
    this.#send({ verb: "pause" });
  }

  resume() {
    this.#send({ verb: "resume" });
  }

  setCushion(ms) {
    this.#send({ verb: "cushion", ms });
  }
}

/**
 * The page's audio: one context, one mixer, a track for each utterance.
 *
 * Browsers start a context only within a user's gesture: call `unlock()` in the handler of a click or a key.
 * Events: `change` when it starts, is suspended (by the browser, a call, a lost device) or turns out to have no worklet.
 */
export class Player extends Events {
  #context = null;
  #given;
  #workletUrl;
  #ready = null;
  #frozen = false;
  #lastTime = -1;
  #held = false; // by suspend()
  #watch;

  constructor({ context = null, workletUrl = import.meta.url, cushion = new Cushion() } = {}) {
    super();
    this.#given = context;
    this.#workletUrl = workletUrl;
    this.cushion = cushion;
    this.mode = "none"; // then "worklet" or "scheduled"
    this.problem = ""; // why it isn't "worklet"
  }

  get context() {
    if (!this.#context) this.#build();
    return this.#context;
  }

  #build() {
    this.#context = this.#given ?? new AudioContext({ latencyHint: "interactive" });
    this.mixer = this.#context.createGain();
    this.analyser = this.#context.createAnalyser();
    this.mixer.connect(this.analyser).connect(this.#context.destination);
    this.#context.addEventListener("statechange", () => this.#changed());
    globalThis.navigator?.mediaDevices?.addEventListener?.("devicechange", () => this.#wake());
    globalThis.document?.addEventListener("visibilitychange", () => document.hidden || this.#wake());
    globalThis.document?.addEventListener("pointerdown", () => this.#wake(), true);
    globalThis.document?.addEventListener("keydown", () => this.#wake(), true);
    this.#watch = setInterval(() => this.#look(), 1000);
    this.#ready = this.#load();
  }

  async #load() {
    try {
      if (!this.#context.audioWorklet) throw new Error("this page isn't a secure context (https, or localhost)");
      await this.#context.audioWorklet.addModule(this.#workletUrl);
      this.mode = "worklet";
    } catch (error) {
      this.mode = "scheduled";
      this.problem = error.message;
    }
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  /** A device that has gone leaves a context "running" whose clock stands still; suspending it binds it anew. */
  async #look() {
    if (this.#context.state !== "running") return;
    const frozen = this.#context.currentTime === this.#lastTime;
    this.#lastTime = this.#context.currentTime;
    if (frozen !== this.#frozen) {
      this.#frozen = frozen;
      this.#changed();
    }
    if (frozen) {
      await this.#context.suspend();
      await this.#context.resume();
    }
  }

  #wake() {
    if (this.#context && !this.#held && this.#context.state !== "running") this.#context.resume().catch(() => {});
  }

  /** Starts the audio; to be called in the handler of a user's gesture. */
  async unlock() {
    this.#held = false;
    await Promise.race([this.context.resume(), new Promise((resolve) => setTimeout(resolve, 500))]);
    await this.#ready;
    return this.running;
  }

  /** Holds everything that plays; the server is told. `unlock()` goes on. */
  async suspend() {
    this.#held = true;
    await this.context.suspend();
  }

  /** Ends the audio for good. A context that was given isn't closed. */
  close() {
    clearInterval(this.#watch);
    if (this.#context && !this.#given) this.#context.close();
  }

  get running() {
    return this.#context !== null && this.#context.state === "running" && !this.#frozen;
  }

  get rateHz() {
    return this.context.sampleRate;
  }

  get time() {
    return this.#context.currentTime;
  }

  get latencyS() {
    return this.#context.outputLatency || this.#context.baseLatency || 0;
  }

  async output(pan, onReport) {
    await this.#ready;
    const panner = this.#context.createStereoPanner();
    panner.pan.value = pan;
    panner.connect(this.mixer);
    const Output = this.mode === "worklet" ? WorkletOutput : ScheduledOutput;
    return new Output(this.#context, panner, this.cushion.ms, (report) => {
      if (report.state === "finished") setTimeout(() => panner.disconnect(), 100);
      onReport(report);
    });
  }

  track(rateHz, options) {
    return new Track(this, rateHz, options);
  }
}

// ---- An utterance ----

const now = () => performance.now();
const announce = (target, type, detail = {}) => target.dispatchEvent(Object.assign(new Event(type), { detail }));

/** When which part of the text was sent, and which part the server was told to speak without waiting. */
class TextLog {
  #sent = []; // [chars, at]
  #closed = []; // the same, for flush and end

  sent(chars, at) {
    this.#sent.push([chars, at]);
  }

  closed(chars, at) {
    this.#closed.push([chars, at]);
  }

  /** When the text up to `chars` was with the server. */
  sentAt(chars) {
    return this.#sent.find(([end]) => end >= chars)?.[1];
  }

  /**
   * When the server knew that a segment ends at `endChar`: with some text after it, a flush or an end.
   * `undefined`: it has only the clock to go by.
   */
  certainAt(endChar) {
    const after = this.#sent.find(([end]) => end >= endChar + 2)?.[1];
    const closed = this.#closed.find(([end]) => end >= endChar)?.[1];
    return after === undefined ? closed : closed === undefined ? after : Math.min(after, closed);
  }
}

/**
 * One stream of text in and speech out. Made by `SpeechClient.speak`.
 *
 * Events: `queued`, `started`, `segment`, `words`, `audio` (its `detail.samples`), `state` (of the playing), `gap`,
 * `flushed`, `error`, `done`, `played` (the listener has heard the end, or it was stopped).
 */
export class Utterance extends Events {
  state = "waiting"; // of the playing: waiting, playing, dry, paused, finished
  segments = []; // {startChar, endChar, start, end, atMs}: `start` and `end` count UTF-16 units
  words = []; // {start, end, startMs, endMs}
  gaps = 0; // heard ones: sound that should have been there wasn't
  dries = 0; // by the audio thread's own count: how often there was nothing to play before the end, for any reason
  error = null;
  result = null; // what `done` resolves to
  #client;
  #options;
  #text = new CountedText();
  #log = new TextLog();
  #torn = "";
  #ended = false;
  #link = null;
  #unsent = [];
  #track = null;
  #started = null;
  #receivedSamples = 0;
  #firstAt = null;
  #dryAt = null;
  #newSegment = false;
  #suspect = null; // {dryAt, index}: ran dry before this segment, whose end isn't known yet
  #stopping = null;
  #receipt = null;
  #settleDone;
  #settlePlayed;
  #lastReport = { at: -Infinity, state: "" };
  #calmMs = 0;

  constructor(client, id, options) {
    super();
    this.id = id;
    this.#client = client;
    this.#options = options;
    this.done = new Promise((resolve) => (this.#settleDone = resolve));
    this.played = new Promise((resolve) => (this.#settlePlayed = resolve));
  }

  get text() {
    return this.#text.text + this.#torn;
  }

  get started() {
    return this.#started;
  }

  /** It takes no more text. */
  get closed() {
    return this.#ended;
  }

  // Text in

  /** The next increment: a token, a word, a page. Kept verbatim; nothing is added between increments. */
  feed(text) {
    if (this.#ended) throw new Error("this utterance has ended: open another one");
    const [whole, torn] = wholeCharacters(this.#torn + text);
    this.#torn = torn;
    this.#feedWhole(whole);
    return this;
  }

  #feedWhole(whole) {
    if (!whole) return;
    this.#text.append(whole);
    this.#log.sent(this.#text.length, now());
    const most = this.#client.limits?.text_chars ?? 4096;
    for (const text of pieces(whole, most)) this.#post({ type: "text", text });
  }

  /** Speaks all there is so far without waiting for more; the utterance stays open. */
  flush(mark) {
    this.#log.closed(this.#text.length, now());
    this.#post({ type: "flush", mark });
  }

  /** No more text. */
  end() {
    if (this.#ended) return;
    if (this.#torn) this.#feedWhole("\ufffd"); // its other half won't come
    this.#torn = "";
    this.#ended = true;
    this.#log.closed(this.#text.length, now());
    this.#post({ type: "end" });
  }

  /** Feeds all increments of an async iterable (or iterable) and ends; stops pulling when the utterance is over. */
  async pipe(increments) {
    for await (const increment of increments) {
      if (this.result || this.#ended) return this.done;
      this.feed(increment);
    }
    this.end();
    return this.done;
  }

  // Interrupting

  /** Silences it now and says how far the listener came: `{end, endChar, exact, playedMs}`, `end` in UTF-16 units. */
  stop() {
    if (this.state === "finished" && !this.#stopping) return Promise.resolve(this.#heardAt(this.playedMs, this.result));
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop() {
    const playedMs = this.playedMs;
    const local = this.#heardAt(playedMs);
    this.hush();
    const answered = this.result === null || this.result.reason === "complete";
    if (!this.#link?.usable || !answered) {
      this.#finish({ reason: "cancelled", heard: local });
      return local;
    }
    const receipt = new Promise((resolve) => (this.#receipt = resolve));
    this.#link.send({ type: "cancel", id: this.id, played_ms: playedMs });
    const late = new Promise((resolve) => setTimeout(resolve, 3000, null));
    const heard = await Promise.race([receipt, this.done.then(({ heard: h }) => h ?? receipt), late]);
    this.#receipt = null;
    this.#finish({ reason: "cancelled", heard: heard ?? local });
    return heard ?? local;
  }

  /** Silences it without telling the server, which learns of it otherwise. */
  hush() {
    this.#ended = true;
    if (this.#track) this.#track.stop();
    else this.#over();
  }

  pause() {
    this.#track?.pause();
  }

  resume() {
    this.#track?.resume();
  }

  // Where it is

  get playedMs() {
    return this.#track ? Math.min(this.#track.playedMs, this.receivedMs) : 0;
  }

  get receivedMs() {
    return this.#started ? (this.#receivedSamples / this.#started.sample_rate_hz) * 1000 : 0;
  }

  /** Sound that is here and not yet heard. */
  get inHandMs() {
    return this.#track && this.state !== "finished" ? Math.max(0, this.receivedMs - this.playedMs) : 0;
  }

  /** What is being heard at this moment: the word if the engine tells words, else the segment; or null. */
  get speaking() {
    const ms = this.playedMs;
    if (!this.#track || this.state === "finished" || this.state === "waiting") return null;
    const word = this.words.findLast(({ startMs }) => startMs <= ms);
    const segment = this.segments.findLast(({ atMs }) => atMs <= ms);
    return { segment: segment ?? null, word: word && word.endMs > ms ? word : null };
  }

  /** How far the text has been heard, in UTF-16 units, by what is known here. */
  get heardUnits() {
    return this.#heardAt(this.playedMs).end;
  }

  #heardAt(ms, result = null) {
    if (result?.heard) return result.heard;
    const all = result?.reason === "complete" && ms >= this.receivedMs - 1;
    const endChar = all ? this.#text.length : this.#charAt(ms);
    return { end: this.#text.toUtf16(endChar), endChar, exact: this.words.length > 0, playedMs: ms };
  }

  #charAt(ms) {
    const word = this.words.findLast(({ endMs }) => endMs <= ms);
    if (this.words.length > 0) return word ? this.#text.fromUtf16(word.end) : 0;
    const index = this.segments.findLastIndex(({ atMs }) => atMs <= ms);
    if (index < 0) return 0;
    const { atMs, start, end, startChar } = this.segments[index];
    const untilMs = this.segments[index + 1]?.atMs ?? this.receivedMs;
    if (ms >= untilMs) return this.#text.fromUtf16(end);
    const reached = start + Math.floor(((end - start) * (ms - atMs)) / Math.max(1, untilMs - atMs));
    const whole = this.text.slice(start, reached).search(/\s\S*$/u);
    return whole < 0 ? startChar : this.#text.fromUtf16(start + whole);
  }

  // The server's side; called by the client

  /** The connection it lives on from now. */
  attach(link) {
    this.#link = link;
    const { replaces, pan, playback, onRefused, ...fields } = this.#options;
    const old = replaces?.beginReplacement(link);
    const cushion_ms = playback === false ? undefined : this.#client.player.cushion.ms + 60;
    link.send({ type: "open", cushion_ms, ...fields, id: this.id, ...old });
    for (const message of this.#unsent.splice(0)) link.send({ ...message, id: this.id });
  }

  /** The fields with which another utterance takes this one's place, if both are on one connection. */
  beginReplacement(link) {
    const same = this.#link === link && !this.#stopping;
    const fields = same ? { replaces: this.id, replaced_played_ms: this.playedMs } : {};
    if (same) this.hush();
    else this.stop();
    return fields;
  }

  #post(message) {
    if (this.result) return;
    if (this.#link?.usable) this.#link.send({ ...message, id: this.id });
    else if (!this.#link) this.#unsent.push(message);
  }

  receive(message) {
    switch (message.type) {
      case "queued": return announce(this, "queued", message);
      case "started": return this.#start(message);
      case "segment": return this.#segment(message);
      case "words": return this.#takeWords(message);
      case "audio": return this.#audio(message);
      case "flushed": return announce(this, "flushed", message);
      case "heard": return this.#receipt?.(this.#fromWire(message));
      case "error":
        this.error = message;
        return announce(this, "error", message);
      case "done": return this.#finish({ ...message, heard: message.heard && this.#fromWire(message.heard) });
    }
    return undefined;
  }

  #fromWire({ end_char: endChar, exact, played_ms: playedMs }) {
    return { end: this.#text.toUtf16(endChar), endChar, exact, playedMs };
  }

  #start(message) {
    this.#started = message;
    if (this.#options.playback !== false && !this.#stopping && this.state !== "finished") {
      this.#track = this.#client.player.track(message.sample_rate_hz, {
        pan: this.#options.pan ?? 0,
        onReport: (report) => this.#reported(report),
      });
    }
    announce(this, "started", message);
  }

  #segment({ index, start_char: startChar, end_char: endChar, at_sample: atSample }) {
    const atMs = (atSample / this.#started.sample_rate_hz) * 1000;
    const start = this.#text.toUtf16(startChar);
    const segment = { index, startChar, endChar, start, end: this.#text.toUtf16(endChar), atMs };
    this.#newSegment = this.segments[index] === undefined;
    if (this.#newSegment) this.#judgeSuspect();
    this.segments[index] = segment;
    announce(this, "segment", segment);
  }

  #takeWords({ words }) {
    const ms = (sample) => (sample / this.#started.sample_rate_hz) * 1000;
    for (const [start, end, from, to] of words) {
      this.words.push({ start: this.#text.toUtf16(start), end: this.#text.toUtf16(end), startMs: ms(from), endMs: ms(to) });
    }
    announce(this, "words", { words });
  }

  #audio({ pcm, at_sample: atSample }) {
    const samples = samplesOf(pcm, this.#started.format);
    if (atSample === 0) this.#firstAt = now();
    if (this.#dryAt !== null) this.#cameLate();
    this.#newSegment = false;
    this.#receivedSamples = atSample + samples.length;
    this.#track?.push(samples);
    announce(this, "audio", { samples, atSample });
  }

  /** From the words that made the first cut certain to the first frame's arrival; null before it. */
  get firstSoundMs() {
    if (this.#firstAt === null) return null;
    const { endChar } = this.segments[0];
    const waitMs = this.#options.wait_ms ?? this.#client.limits?.wait_ms ?? 300;
    const sentAt = this.#log.sentAt(endChar) ?? this.#firstAt;
    const reasons = [this.#log.certainAt(endChar), sentAt + waitMs].filter((at) => at <= this.#firstAt);
    return this.#firstAt - (reasons.length > 0 ? Math.min(...reasons) : sentAt);
  }

  /** Running dry is a gap only if the next sound could have been here: text that comes late isn't the server's fault. */
  #cameLate() {
    const dryAt = this.#dryAt;
    this.#dryAt = null;
    if (this.#newSegment) this.#suspect = { dryAt, index: this.segments.length - 1 };
    else this.#gap(dryAt);
  }

  /** A segment grows while it is spoken: only when it is whole can its text be looked up. */
  #judgeSuspect() {
    if (!this.#suspect) return;
    const { dryAt, index } = this.#suspect;
    this.#suspect = null;
    if (this.#log.certainAt(this.segments[index].endChar) <= dryAt) this.#gap(dryAt);
  }

  #gap(dryAt) {
    this.gaps += 1;
    const { cushion } = this.#client.player;
    cushion.gap();
    this.#track?.setCushion(cushion.ms);
    announce(this, "gap", { at: dryAt });
  }

  #reported({ state, overrun, dries }) {
    const before = this.state;
    if (before === "finished") return;
    this.dries = dries;
    this.state = state;
    if (state === "dry" && before !== "dry") this.#dryAt = now();
    if (overrun) this.error ??= { code: "overrun", message: "more sound came than can be held", retryable: false };
    this.#tellServer(state, before);
    this.#countCalm();
    if (state !== before) announce(this, "state", { state });
    if (state === "finished") this.#over();
  }

  /** The browser suspended or resumed all sound. */
  suspended() {
    if (this.#track) this.#reported(this.#track.report);
  }

  #countCalm() {
    const { playedMs } = this;
    this.#client.player.cushion.played(playedMs - this.#calmMs);
    this.#calmMs = playedMs;
  }

  #tellServer(state, before) {
    const quiet = now() - this.#lastReport.at < 450 && state === before;
    if (quiet || this.result || !this.#link?.usable || state === "waiting" || state === "finished") return;
    this.#lastReport = { at: now(), state };
    this.#link.send({ type: "played", id: this.id, ms: this.playedMs, state: state === "paused" ? "paused" : "playing" });
  }

  #finish(result) {
    if (!this.result) {
      this.#judgeSuspect();
      this.#ended = true;
      this.result = { ...result, error: this.error };
      this.#settleDone(this.result);
      announce(this, "done", this.result);
    }
    if (this.state === "finished") this.#client.forget(this);
    else if (this.#track) this.#track.end();
    else this.#over();
  }

  /** Called when it is over for the ear: the connection forgets it once the server has nothing more to say of it. */
  leave() {
    if (this.result && !this.#receipt) this.#link?.utterances.delete(this.id);
  }

  /** The connection is gone: what is here plays to its end. */
  lost(error) {
    if (this.result) {
      this.#receipt?.(this.#heardAt(this.playedMs));
      return;
    }
    this.error ??= error;
    announce(this, "error", this.error);
    this.#finish({ reason: "lost", heard: this.#heardAt(this.playedMs) });
  }

  #over() {
    this.state = "finished";
    this.#client.forget(this);
    this.#settlePlayed(this.result);
    announce(this, "played");
  }
}

// ---- A connection ----

/** An error in the words of the protocol: `code`, `message`, `retryable`, `retry_after_ms`. */
const problem = (code, message, more = {}) => ({ code, message, retryable: true, ...more });
const UNREACHABLE = problem("unreachable", "the server can't be reached");
const LOST = problem("connection_lost", "the connection to the server was lost");

/** Why the upgrade was refused: the same request without an upgrade says it, 426 meaning "it would succeed". */
async function whyRefused(url) {
  try {
    const answer = await fetch(url, { cache: "no-store", credentials: "omit" });
    if (answer.status === 426) return LOST;
    const { error } = await answer.json();
    const wait = error.retry_after_ms ?? Number(answer.headers.get("Retry-After")) * 1000;
    return { ...error, retryable: answer.status >= 500 || answer.status === 429, retry_after_ms: wait || undefined };
  } catch {
    return UNREACHABLE;
  }
}

/** One WebSocket and the utterances on it. */
class Link {
  usable = false;
  draining = false;
  hello = null;
  utterances = new Map();
  #socket;
  #url;
  #on;
  #heardAt = now();
  #watch;
  #over = false;
  #idle = false;
  #retryAfterMs;

  /** `on`: `{hello(link), message(link, message), lost(link, error)}`. */
  constructor(url, on) {
    this.#url = url;
    this.#on = on;
    const address = new URL(url);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    this.#socket = new WebSocket(address, [SUBPROTOCOL]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onmessage = ({ data }) => this.#received(data);
    this.#socket.onclose = ({ code }) => this.#closed(code);
    this.#watch = setInterval(() => this.#lookAfter(), 5000);
  }

  send(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(encode(message));
  }

  close() {
    this.#lose(null);
    this.#socket.close(1000);
  }

  /** A server that has vanished without a word closes nothing: silence on a busy connection is asked about, then cut. */
  #lookAfter() {
    const silentMs = now() - this.#heardAt;
    if (this.utterances.size === 0 && this.hello) return;
    if (silentMs > 25000) this.#lose(LOST);
    else if (silentMs > 12000) this.send({ type: "ping" });
  }

  #received(data) {
    if (this.#over) return;
    this.#heardAt = now();
    const message = decode(new Uint8Array(data));
    if (message.type === "hello") {
      this.hello = message;
      this.usable = true;
      this.#on.hello(this);
    } else if (message.type === "bye") {
      this.draining = true;
      this.#idle = message.reason === "idle";
      this.#retryAfterMs = message.retry_after_ms;
    } else this.#deliver(message);
  }

  #deliver(message) {
    const utterance = this.utterances.get(message.id);
    if (utterance) utterance.receive(message);
    else if (message.type === "error") this.#on.error(message);
  }

  async #closed(code) {
    if (this.#over) return;
    const lost = { ...LOST, message: `${LOST.message} (${code})`, retry_after_ms: this.#retryAfterMs };
    if (this.hello) this.#lose(this.#idle ? null : lost);
    else this.#lose(await whyRefused(this.#url));
  }

  #lose(error) {
    if (this.#over) return;
    this.#over = true;
    this.usable = false;
    clearInterval(this.#watch);
    for (const utterance of [...this.utterances.values()]) utterance.lost(error ?? LOST);
    this.#socket.close();
    this.#on.lost(this, error);
  }
}

// ---- The client ----

/**
 * Speaks through one server. Connects when first needed, again with growing pauses when the connection is lost.
 *
 * Open utterances of a lost connection fail (`done` resolves with the reason `lost` and what was heard): text is never
 * sent twice. Events: `state`, `hello`, `error` (of the connection), `utterance`.
 * `state`: `idle`, `connecting`, `open`, `waiting` (before the next try), `refused` (a try won't help), `closed`.
 */
export class SpeechClient extends Events {
  state = "idle";
  error = null; // why it is waiting or refused
  retryAt = null; // by performance.now(), while waiting
  hello = null;
  #url;
  #token;
  #link = null;
  #waiting = new Set(); // utterances without a connection yet
  #live = new Set();
  #tries = 0;
  #timer;
  #count = 0;

  /**
   * `url`: the server's address; by default where this module came from. `token`: a short-lived token, or a function
   * that fetches one for each connection. `player`: a `Player`, if the page wants its own.
   */
  constructor({ url = import.meta.url, token = null, player = new Player() } = {}) {
    super();
    this.#url = new URL("v1/speak", new URL(".", new URL(url, import.meta.url)));
    this.#url.protocol = this.#url.protocol.replace("ws", "http");
    this.#token = token;
    this.player = player;
    player.addEventListener("change", () => this.#live.forEach((utterance) => utterance.suspended()));
    globalThis.addEventListener?.("online", () => this.state === "waiting" && this.connect());
  }

  get limits() {
    return this.hello?.limits ?? null;
  }

  get utterances() {
    return [...this.#live];
  }

  #become(state, error = null) {
    this.state = state;
    this.error = error;
    announce(this, "state", { state, error });
  }

  /** Starts the audio (call it in a gesture's handler). Resolves to whether sound can be heard. */
  unlock() {
    return this.player.unlock();
  }

  /** Connects, or tries again at once. Needn't be called: `speak` does. */
  async connect() {
    if (this.state === "connecting" || this.state === "open" || this.state === "closed") return;
    clearTimeout(this.#timer);
    this.#become("connecting");
    try {
      const url = new URL(this.#url);
      const token = typeof this.#token === "function" ? await this.#token() : this.#token;
      if (token) url.searchParams.set("token", token);
      if (this.state === "connecting") this.#open(url);
    } catch (error) {
      this.#failed(typeof error.code === "string" ? error : UNREACHABLE);
    }
  }

  #open(url) {
    this.#link = new Link(url, {
      hello: (link) => this.#welcomed(link),
      error: (error) => announce(this, "error", error),
      lost: (link, error) => this.#lost(link, error),
    });
  }

  #welcomed(link) {
    this.#tries = 0;
    this.hello = link.hello;
    this.#become("open");
    announce(this, "hello", link.hello);
    for (const utterance of this.#waiting) this.#attach(utterance, link);
    this.#waiting.clear();
  }

  #attach(utterance, link) {
    link.utterances.set(utterance.id, utterance);
    utterance.attach(link);
  }

  #lost(link, error) {
    if (link !== this.#link || this.state === "closed") return;
    this.#link = null;
    if (error === null) this.#become("idle");
    else this.#failed(error);
  }

  #failed(error) {
    this.#link = null;
    if (!error.retryable) {
      this.#become("refused", error);
      for (const utterance of this.#waiting) utterance.lost(error);
      this.#waiting.clear();
      return;
    }
    const backOffMs = Math.min(8000, 250 * 2 ** this.#tries) * (0.75 + Math.random() / 2);
    const pauseMs = Math.max(backOffMs, error.retry_after_ms ?? 0);
    this.#tries += 1;
    this.retryAt = now() + pauseMs;
    this.#become("waiting", error);
    this.#timer = setTimeout(() => this.connect(), pauseMs);
  }

  /**
   * Opens an utterance: feed it text. Options are the fields of the protocol's `open` (`voice`, `engine`, `language`,
   * `speed`, `wait_ms`, `words`, `seed`, `options`, ...), `replaces` (an utterance that this one interrupts), `pan`
   * (-1 to 1) and `playback: false` (for a page that does something else with the samples).
   */
  speak(options = {}) {
    if (this.state === "closed") throw new Error("the client is closed");
    if (!["s16le", "f32le"].includes(options.format ?? "s16le")) throw new Error(`${options.format} isn't played here`);
    this.#count += 1;
    const utterance = new Utterance(this, `${this.#count}`, { words: true, ...options });
    this.#live.add(utterance);
    announce(this, "utterance", { utterance });
    if (this.#link?.draining) this.#moveOn();
    if (this.#link?.usable) this.#attach(utterance, this.#link);
    else {
      this.#waiting.add(utterance);
      this.connect();
    }
    return utterance;
  }

  /** The server is going away: what is open there goes on, what is new needs another connection. */
  #moveOn() {
    this.#link = null;
    this.#become("idle");
  }

  /** Called by an utterance that is over. */
  forget(utterance) {
    this.#live.delete(utterance);
    this.#waiting.delete(utterance);
    utterance.leave();
  }

  /** Silences everything; resolves to what was heard of each. */
  stopAll() {
    return Promise.all(this.utterances.map((utterance) => utterance.stop()));
  }

  close() {
    clearTimeout(this.#timer);
    for (const utterance of this.utterances) utterance.hush();
    this.#become("closed");
    this.#link?.close();
    this.player.close();
  }
}
