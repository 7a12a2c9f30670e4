/**
 * Speaks a text box while someone writes in it.
 *
 * What was sent can't be taken back, so the word under the fingers is held until it is whole or the hands rest. An edit
 * of what was sent but not heard replaces the utterance from the last word heard; what was heard stays said.
 */

const UNFINISHED_WORD = /[\p{L}\p{N}\p{M}'’_-]+$/u;
// Scripts without spaces between words: every character may be spoken as it comes.
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;
const REST_MS = 500;

/** How much of `text` can be sent while someone is still writing. */
export function settledLength(text) {
  const word = UNFINISHED_WORD.exec(text);
  return word && !UNSPACED.test(word[0]) ? word.index : text.length;
}

function commonStart(a, b) {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length += 1;
  return length;
}

export class LiveTyping {
  utterance = null;
  base = 0; // where in the box the utterance's text begins
  heard = 0; // how far the box has been heard before this utterance
  #value = "";
  #speak;
  #timer;
  #next = null;

  /** `speak(options)` opens an utterance. */
  constructor(speak) {
    this.#speak = speak;
  }

  get #sentTo() {
    return this.utterance ? this.base + this.utterance.text.length : this.base;
  }

  /** The box's text has changed to `value`; `enter`: by the Enter key. */
  input(value, enter = false) {
    clearTimeout(this.#timer);
    const edited = !value.startsWith(this.#value.slice(0, this.#sentTo));
    if (edited) this.#edit(value);
    this.#value = value;
    if (enter) this.flush();
    else {
      this.#sendTo(this.base + settledLength(value.slice(this.base)));
      this.#timer = setTimeout(() => this.#sendTo(this.#value.length), REST_MS);
    }
  }

  #edit(value) {
    const old = this.utterance;
    const heard = this.#heardTo();
    const kept = commonStart(this.#value, value);
    const moved = heard + value.length - this.#value.length;
    this.base = Math.max(0, Math.min(kept >= heard ? heard : Math.max(kept, moved), value.length));
    this.heard = this.base;
    this.utterance = null;
    if (!old || old.state === "finished") return;
    if (value.slice(this.base).trim()) this.utterance = this.#speak({ replaces: old });
    else old.stop();
  }

  #heardTo() {
    return this.utterance ? Math.max(this.heard, this.base + this.utterance.heardUnits) : this.base;
  }

  #sendTo(end) {
    const from = this.#sentTo;
    if (end <= from) return;
    if (this.#stillSpeaking) return;
    if (!this.utterance || this.utterance.closed) this.#begin(from);
    if (this.utterance && !this.utterance.closed) this.utterance.feed(this.#value.slice(from, end));
  }

  /** The one before has ended but is still heard: what is written now comes after it. */
  get #stillSpeaking() {
    const old = this.utterance;
    if (!old?.closed || old.state === "finished") return false;
    this.#next ??= old.played.then(() => {
      this.#next = null;
      if (this.utterance === old) this.#sendTo(this.#value.length);
    });
    return true;
  }

  #begin(from) {
    if (!this.#value.slice(from).trim()) return;
    this.heard = this.#heardTo();
    this.base = from;
    this.utterance = this.#speak({});
  }

  /** Speaks at once all there is. */
  flush() {
    clearTimeout(this.#timer);
    this.#sendTo(this.#value.length);
    if (this.utterance && !this.utterance.closed) this.utterance.flush();
  }

  /** The writer has left the box. */
  leave() {
    clearTimeout(this.#timer);
    this.#sendTo(this.#value.length);
    this.utterance?.end();
  }

  /** Silence; what is in the box stays, and is over. Resolves to where in the box the listener was. */
  async stop() {
    clearTimeout(this.#timer);
    const { utterance, base } = this;
    if (!utterance) return null;
    const { end } = await utterance.stop();
    if (this.utterance === utterance) {
      this.base = this.#value.length;
      this.heard = this.base;
      this.utterance = null;
    }
    return base + end;
  }

  /** Says the whole box from its start, and ends. */
  again() {
    clearTimeout(this.#timer);
    const old = this.utterance;
    this.base = 0;
    this.heard = 0;
    this.utterance = this.#speak(old ? { replaces: old } : {});
    this.utterance.feed(this.#value);
    this.utterance.end();
  }
}
