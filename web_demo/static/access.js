/** How the page gets in: a key, if the server wants one, is traded for tokens that are good for one connection each. */

const problem = (code, message) => Object.assign(new Error(message), { code, retryable: code === "unreachable" });

export class Access {
  #key = "";

  use(key) {
    this.#key = key;
  }

  get headers() {
    return this.#key ? { Authorization: `Bearer ${this.#key}` } : {};
  }

  /** A token for the next connection, or none where no key was given. */
  async token() {
    if (!this.#key) return null;
    const answer = await this.#fetch("v1/tokens", { method: "POST" });
    const body = await answer.json();
    if (answer.ok) return body.token;
    throw Object.assign(problem(body.error.code, body.error.message), { retryable: answer.status >= 500 });
  }

  /** What a GET says, or null: what the page shows beside the speech may be missing. */
  async read(path) {
    try {
      const answer = await this.#fetch(path);
      return answer.ok ? await answer.json() : null;
    } catch {
      return null;
    }
  }

  async #fetch(path, options = {}) {
    const headers = { ...this.headers, ...options.headers };
    try {
      return await fetch(new URL(`../${path}`, import.meta.url), { ...options, headers, cache: "no-store" });
    } catch {
      throw problem("unreachable", "the server can't be reached");
    }
  }
}
