/** The one place where the page says that something is wrong; one notice at a time, gone when it is over. */

import { inWords } from "./words.js";

const byId = (id) => document.getElementById(id);

export class Notices {
  #client;
  #kind = "";
  #countdown;
  #told = false; // about the missing audio thread, once

  constructor(client, access) {
    this.#client = client;
    byId("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      access.use(byId("key").value.trim());
      byId("key").value = "";
      byId("key-form").hidden = true;
      client.connect();
    });
  }

  #say(kind, error, action) {
    const [title, advice] = inWords(error);
    this.#kind = kind;
    byId("notice-title").textContent = title;
    byId("notice-advice").textContent = advice;
    const button = byId("notice-action");
    button.hidden = !action;
    if (action) {
      button.textContent = action.label;
      button.onclick = action.run;
    }
    byId("notice").hidden = false;
  }

  /** Something about one text, or about none. */
  show(error) {
    if (error.code === "connection_lost" || this.#kind === "connection") return;
    this.#say("utterance", error);
  }

  clear(kind) {
    if (this.#kind !== kind) return;
    this.#kind = "";
    byId("notice").hidden = true;
    clearInterval(this.#countdown);
  }

  /** The connection's state has changed. */
  connection(state, error) {
    if (state === "open" || state === "idle") {
      byId("key-form").hidden = true;
      this.clear("connection");
    }
    if (!error) return;
    const keyed = error.code === "unauthorized";
    byId("key-form").hidden = !keyed;
    const again = { label: "Try now", run: () => this.#client.connect() };
    this.#say("connection", error, keyed ? null : again);
    if (state === "waiting") this.#count();
  }

  #count() {
    clearInterval(this.#countdown);
    const tick = () => {
      const leftS = Math.ceil((this.#client.retryAt - performance.now()) / 1000);
      if (this.#client.state === "waiting") byId("notice-action").textContent = `Try now (${Math.max(0, leftS)} s)`;
    };
    this.#countdown = setInterval(tick, 1000);
    tick();
  }

  /** The player has started, stopped or found out how it plays. */
  sound(player) {
    if (player.running) this.clear("silent");
    if (player.mode !== "scheduled" || isSecureContext || this.#told || this.#kind) return;
    this.#told = true;
    this.#say("worklet", { code: "no_worklet" });
  }

  /** There should be sound, but the browser holds it back. */
  silent() {
    if (!this.#kind) this.#say("silent", { code: "not_heard" });
  }
}
