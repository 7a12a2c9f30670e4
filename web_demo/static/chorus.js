/** Several voices at once, each a listener of its own. */

import { Paper, whereOf } from "./paper.js";
import { CHORUS, paced, tokens } from "./texts.js";
import { inWords } from "./words.js";

const PACE = 30;

const make = (name, className = "", text = "") => Object.assign(document.createElement(name), { className, textContent: text });

class Card {
  #paper;
  #status = make("span");
  #fill = make("span", "bar-fill");
  #queued = false;

  constructor(utterance, name, text) {
    this.utterance = utterance;
    this.text = text;
    this.element = make("li", "card");
    const title = make("h3", "", name);
    title.append(this.#status);
    const body = make("p");
    const track = make("div", "bar-track");
    track.append(this.#fill);
    this.element.append(title, body, track);
    this.#paper = new Paper(body);
    utterance.addEventListener("queued", () => (this.#queued = true));
    utterance.addEventListener("started", () => (this.#queued = false));
  }

  draw() {
    const { utterance, text } = this;
    const stopped = utterance.result?.reason === "cancelled" ? utterance.heardUnits : null;
    this.#paper.show(utterance.text || text.slice(0, 0), { ...whereOf(utterance), stoppedAt: stopped });
    const reach = text.length ? Math.min(1, utterance.heardUnits / text.length) : 0;
    this.#fill.style.transform = `scaleX(${reach})`;
    const words = this.#words();
    if (this.#status.textContent !== words) this.#status.textContent = words;
  }

  #words() {
    const { error, firstSoundMs, gaps, result } = this.utterance;
    if (error) return inWords(error)[0];
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
      const utterance = speak({ pan, voice });
      utterance.pipe(paced(tokens(text), () => PACE, signal));
      return new Card(utterance, `${i + 1}. ${choices.nameOf(voice)}`, text);
    });
    this.#list.replaceChildren(...this.#cards.map(({ element }) => element));
    return Promise.all(this.#cards.map(({ utterance }) => utterance.played));
  }

  draw() {
    for (const card of this.#cards) card.draw();
  }
}
