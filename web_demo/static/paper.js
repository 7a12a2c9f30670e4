/** Shows a text as it is heard: heard words in ink, the sentence being spoken marked, the rest still grey. */

const span = (className, text) => {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
};

/**
 * The parts of `text` with their class names. `heard`, `segment` and `word` are positions in `text`; `stoppedAt` is
 * where the listener was when it was stopped.
 */
export function partsOf(text, { heard = text.length, segment = null, word = null, stoppedAt = null }) {
  if (stoppedAt !== null) {
    const at = stoppedAt + /^\s*/u.exec(text.slice(stoppedAt))[0].length;
    return [["", text.slice(0, at)], ["here", ""], ["unsaid", text.slice(at)]];
  }
  const cuts = [0, heard, text.length];
  for (const range of [segment, word]) if (range) cuts.push(range.start, range.end);
  const edges = [...new Set(cuts.map((cut) => Math.max(0, Math.min(cut, text.length))))].sort((a, b) => a - b);
  const inside = (range, at) => range !== null && at >= range.start && at < range.end;
  return edges.slice(0, -1).map((at, i) => {
    const names = [];
    if (inside(word, at)) names.push("word");
    else {
      if (inside(segment, at)) names.push("speaking");
      if (at >= heard) names.push("pending");
    }
    return [names.join(" "), text.slice(at, edges[i + 1])];
  });
}

/** Draws only what has changed. */
export class Paper {
  #element;
  #drawn = "";

  constructor(element) {
    this.#element = element;
  }

  show(text, where) {
    const parts = partsOf(text, where);
    const key = JSON.stringify(parts);
    if (key === this.#drawn) return;
    this.#drawn = key;
    // The last character keeps a line's height for a line break at the end.
    this.#element.replaceChildren(...parts.map(([name, part]) => (name ? span(name, part) : part)), "\u200b");
  }
}

/** Where an utterance is, as positions in a text that holds its own from `base` on. */
export function whereOf(utterance, base = 0, heardBefore = 0) {
  if (!utterance) return { heard: heardBefore };
  const { speaking } = utterance;
  const shift = (range) => range && { start: range.start + base, end: range.end + base };
  return {
    // What stands before the segment being spoken is over, its last full stop included.
    heard: Math.max(heardBefore, base + Math.max(utterance.heardUnits, speaking?.segment?.start ?? 0)),
    segment: shift(speaking?.segment ?? null),
    word: shift(speaking?.word ?? null),
  };
}
