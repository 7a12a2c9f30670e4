/** Several voices at once, each a listener of its own. */

import { Paper, whereOf } from "./paper.js";
import { CHORUS, paced, tokens } from "./texts.js";
import { inBrief } from "./words.js";

const PACE = 30;

const make = (name, className = "", text = "") => Object.assign(document.createElement(name), { className, textContent: text });

class Card {
  #paper;
  #name = make("b");
  #status = make("span");
  #fill = make("span", "bar-fill");
  #queued = false;

  /** `open(voice)` begins an utterance that is fed `text`. */
  constructor(open, voice, text, choices) {
    this.text = text;
    this.element = make("li", "card");
    const title = make("h2");
    title.append(this.#name, this.#status);
    const body = make("p");
    const track = make("div", "bar-track");
    track.append(this.#fill);
    this.element.append(title, body, track);
    this.#paper = new Paper(body);
    this.heard = this.#begin(open, voice, choices);
  }

  /** A voice that can't be had, not even one sample of it, is replaced by the default one. */
  async #begin(open, voice, choices) {
    this.#show(open(voice), choices.nameOf(voice));
    await this.utterance.played;
    if (!this.utterance.error || this.utterance.started || voice === undefined) return;
    choices.missing(voice);
    this.#show(open(undefined), choices.nameOf(choices.ids[0]));
    await this.utterance.played;
  }

  #show(utterance, name) {
    this.utterance = utterance;
    this.#name.textContent = name;
    utterance.addEventListener("queued", () => (this.#queued = true));
    utterance.addEventListener("started", () => (this.#queued = false));
  }

  draw() {
    const { utterance, text } = this;
    const stopped = utterance.result?.reason === "cancelled" ? utterance.heardUnits : null;
    this.#paper.show(utterance.text, { ...whereOf(utterance), stoppedAt: stopped });
    const reach = text.length ? Math.min(1, utterance.heardUnits / text.length) : 0;
    this.#fill.style.transform = `scaleX(${reach})`;
    const words = this.#words();
    if (this.#status.textContent !== words) this.#status.textContent = words;
  }

  #words() {
    const { error, firstSoundMs, gaps, result } = this.utterance;
    if (error) return inBrief(error);
    if (result?.reason === "cancelled") return "stopped";
    if (this.#queued) return "waiting for a place";
    if (firstSoundMs === null) return "";
    return gaps ? `${gaps} ${gaps === 1 ? "gap" : "gaps"}` : `${Math.round(firstSoundMs)} ms`;
  }
}

export class Chorus {
  #list;
  #cards = [];

  constructor(list) {
    this.#list = list;
  }

  /** `speak(options)` opens an utterance; `choices` has the voices. Resolves when all have been heard or stopped. */
  start(count, speak, choices, signal) {
    const ids = choices.ids;
    const chosen = choices.options.voice;
    this.#cards = CHORUS.slice(0, count).map((text, i) => {
      const voice = chosen ?? ids[i % ids.length];
      const pan = count > 1 ? -0.8 + (1.6 * i) / (count - 1) : 0;
      const open = (name) => {
        const utterance = speak({ pan, voice: name }, { quiet: name !== undefined && name !== chosen });
        utterance.pipe(paced(tokens(text), () => PACE, signal));
        return utterance;
      };
      return new Card(open, voice, text, choices);
    });
    this.#list.replaceChildren(...this.#cards.map(({ element }) => element));
    return Promise.all(this.#cards.map(({ heard }) => heard));
  }

  draw() {
    for (const card of this.#cards) card.draw();
  }
}
