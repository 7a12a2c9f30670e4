/** The pickers of voice, engine and speed, filled from what the server has. */

const byId = (id) => document.getElementById(id);

function fill(select, first, options) {
  const chosen = select.value;
  const items = options.map(({ value, label, disabled = false }) => {
    const option = new Option(label, value);
    option.disabled = disabled;
    return option;
  });
  select.replaceChildren(new Option(first, ""), ...items);
  select.value = chosen;
  if (select.selectedIndex < 0) select.value = "";
}

function languageName(tag) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag);
  } catch {
    return tag;
  }
}

export class Choices {
  #voices = [];
  #hello = null;
  #missing = new Set();

  constructor() {
    byId("engine").addEventListener("change", () => this.#fillVoices());
    byId("speed").addEventListener("input", () => this.#showSpeed());
    this.#showSpeed();
  }

  #showSpeed() {
    byId("speed-out").value = `${Number(byId("speed").value).toFixed(1)}×`;
  }

  async load(access, hello) {
    this.#hello = hello;
    const [engines, voices] = await Promise.all([access.read("v1/engines"), access.read("v1/voices")]);
    this.#voices = voices?.voices ?? [];
    const usable = (engines?.engines ?? []).filter(({ installed }) => installed);
    const rows = usable.map(({ name, state }) => ({ value: name, label: name, disabled: state === "failed" }));
    fill(byId("engine"), `Default (${hello.engine})`, rows);
    this.#fillVoices();
  }

  #fillVoices() {
    const engine = byId("engine").value || this.#hello?.engine;
    const rows = this.#usable(engine).map(({ voice_id: value, name, language }) => ({
      value,
      label: language ? `${name}, ${languageName(language)}` : name,
    }));
    const own = engine === this.#hello?.engine;
    fill(byId("voice"), own ? `Default (${this.nameOf(this.#hello.voice)})` : "Default", rows);
  }

  #usable(engine) {
    return this.#voices.filter(({ engines }) => engines.includes(engine));
  }

  /** This voice couldn't be had: it isn't taken unasked again. */
  missing(id) {
    this.#missing.add(id);
  }

  /** Voices to show several with, the chosen or default one first. */
  get ids() {
    const { voice, engine } = this.options;
    const all = this.#usable(engine ?? this.#hello?.engine).map(({ voice_id: id }) => id);
    const first = voice ?? (engine ? all[0] : this.#hello?.voice);
    return [first, ...all.filter((id) => id !== first && !this.#missing.has(id))];
  }

  nameOf(id) {
    return this.#voices.find(({ voice_id: known }) => known === id)?.name ?? id ?? "Default";
  }

  /** The fields of an `open`. */
  get options() {
    const [voice, engine, speed] = ["voice", "engine", "speed"].map((id) => byId(id).value);
    return { voice: voice || undefined, engine: engine || undefined, speed: speed === "1" ? undefined : Number(speed) };
  }
}
