/**
 * Speech for a mobile app, in plain TypeScript without a dependency: React Native, NativeScript, a web view, Node.
 *
 * It speaks the JSON form of the protocol, which needs nothing but `WebSocket` and `JSON`. The app gives it a `Sink`
 * that plays 16-bit samples and knows how far it is; it gives the app the words as they are heard.
 */

/** What plays. `playedMs` is the media time that has left the loudspeaker since `start`. */
export interface Sink {
  start(sampleRateHz: number): void;
  write(samples: Int16Array): void;
  /** No more samples will come: play what is there. */
  finish(): void;
  /** Silence, now. */
  stop(): void;
  readonly playedMs: number;
  readonly paused: boolean;
}

export interface Heard {
  /** How much of the text was heard, in UTF-16 units: `text.slice(0, heard.end)`. */
  end: number;
  exact: boolean;
}

export interface Ending {
  reason: "complete" | "cancelled" | "replaced" | "failed" | "timeout" | "lost";
  heard?: Heard;
  /** Why, for `failed` and `lost`. */
  message?: string;
  /** When it is worth another try. */
  retryAfterMs?: number;
}

type Fields = Record<string, unknown>;
interface Socket {
  readyState: number;
  send(data: string): void;
  close(): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}
export type SocketClass = new (url: string, protocols: string[]) => Socket;

const REPORT_MS = 500;
const RECEIPT_MS = 60_000;

/** One connection; an app keeps one while it talks. */
export class Speech {
  private socket: Socket | null = null;
  private greeted = false;
  private waiting: Fields[] = [];
  private live = new Map<string, Utterance>();
  private count = 0;

  /** `token`: fetches a short-lived token from the app's own back end, where the server wants one. */
  constructor(
    private readonly url: string,
    private readonly token: () => Promise<string | null> = async () => null,
    private readonly WebSocketClass: SocketClass = (globalThis as unknown as { WebSocket: SocketClass }).WebSocket,
  ) {}

  /** Opens an utterance. `replaces` is silenced in the same step: that is how a user interrupts. */
  say(sink: Sink, options: Fields = {}, replaces?: Utterance): Utterance {
    this.count += 1;
    const id = `${this.count}`;
    const utterance = new Utterance(id, sink, (fields) => this.send({ ...fields, id }), () => this.live.delete(id));
    const old = replaces && this.live.has(replaces.id) ? replaces.handOver() : {};
    this.live.set(id, utterance);
    this.send({ type: "open", words: true, ...options, ...old, id });
    return utterance;
  }

  /** When the app goes to the background for good, or the user logs out. */
  close(): void {
    this.socket?.close();
    this.lost("closed");
  }

  private send(fields: Fields): void {
    if (this.greeted) this.socket!.send(JSON.stringify(fields));
    else {
      this.waiting.push(fields);
      if (!this.socket) void this.connect();
    }
  }

  private async connect(): Promise<void> {
    const socket = { readyState: 0 } as Socket;
    this.socket = socket;
    try {
      const token = await this.token();
      if (this.socket !== socket) return; // closed meanwhile
      const address = token ? `${this.url}?token=${encodeURIComponent(token)}` : this.url;
      const real = new this.WebSocketClass(address, ["saystream.v1.json"]);
      this.socket = real;
      real.onmessage = ({ data }) => this.receive(JSON.parse(data as string) as Fields);
      real.onclose = () => this.socket === real && this.lost("the connection was lost");
      real.onerror = () => {}; // a close follows
    } catch (error) {
      this.lost(String(error));
    }
  }

  private receive(message: Fields): void {
    if (message.type === "hello") {
      this.greeted = true;
      for (const fields of this.waiting.splice(0)) this.send(fields);
    } else this.live.get(message.id as string)?.receive(message);
  }

  /** Text is never sent twice: what was open ends here, and the app decides what to say again. */
  private lost(message: string): void {
    this.socket = null;
    this.greeted = false;
    this.waiting = [];
    for (const utterance of [...this.live.values()]) utterance.lost(message);
  }
}

/** One stream of text in and speech out. */
export class Utterance {
  /** Resolves once, whatever happens. `complete`: all is here, and the loudspeaker may still be playing it. */
  readonly ending: Promise<Ending>;
  text = "";
  private end!: (ending: Ending) => void;
  private words: [startChar: number, endChar: number, startMs: number, endMs: number][] = [];
  private rateHz = 0;
  private receivedMs = 0;
  private error: Fields = {};
  private over = false;
  private receipt: ((ending: Ending) => void) | null = null;
  private silenced = false;
  private torn = "";
  private reports: ReturnType<typeof setInterval> | undefined;

  constructor(
    readonly id: string,
    private readonly sink: Sink,
    private readonly post: (fields: Fields) => void,
    private readonly forget: () => void,
  ) {
    this.ending = new Promise((resolve) => (this.end = resolve));
  }

  /** The next increment, verbatim. Half an emoji at its end waits for the other half. */
  feed(increment: string): void {
    const whole = this.torn + increment;
    const last = whole.charCodeAt(whole.length - 1);
    const cut = last >= 0xd800 && last <= 0xdbff ? whole.length - 1 : whole.length;
    this.torn = whole.slice(cut);
    this.text += whole.slice(0, cut);
    if (cut > 0) this.send({ type: "text", text: whole.slice(0, cut) });
  }

  finish(): void {
    this.send({ type: "end" });
  }

  /** The user speaks or taps: silence, and an answer to "what did they hear?". */
  stop(): Promise<Ending> {
    const played_ms = this.playedMs;
    this.silence();
    this.post({ type: "cancel", played_ms });
    // All was sent, but not heard: the answer is a receipt.
    return this.over ? new Promise((resolve) => (this.receipt = resolve)) : this.ending;
  }

  /** The word at the listener's ear, as `[start, end]` in UTF-16 units. */
  get word(): [number, number] | null {
    const at = this.playedMs;
    const word = this.words.find(([, , startMs, endMs]) => startMs <= at && at < endMs);
    return word ? [this.units(word[0]), this.units(word[1])] : null;
  }

  handOver(): Fields {
    const fields = { replaces: this.id, replaced_played_ms: this.playedMs };
    this.silence();
    return fields;
  }

  receive(message: Fields): void {
    if (message.type === "started") this.start(message.sample_rate_hz as number);
    else if (message.type === "words") this.takeWords(message.words as [number, number, number, number][]);
    else if (message.type === "audio") this.play(message.pcm as string);
    else if (message.type === "error") this.error = message;
    else if (message.type === "done") this.done(message);
    else if (message.type === "heard") this.receipt?.({ reason: "cancelled", heard: this.heard(message) });
  }

  lost(message: string): void {
    const word = this.words.filter(([, , , endMs]) => endMs <= this.playedMs).pop();
    this.sink.finish();
    this.settle({ reason: "lost", message, heard: { end: word ? this.units(word[1]) : 0, exact: false } });
  }

  private get playedMs(): number {
    return Math.min(this.rateHz ? this.sink.playedMs : 0, this.receivedMs);
  }

  private send(fields: Fields): void {
    if (!this.over) this.post(fields);
  }

  private start(rateHz: number): void {
    this.rateHz = rateHz;
    if (this.silenced) return;
    this.sink.start(rateHz);
    const report = () =>
      this.post({ type: "played", ms: this.playedMs, state: this.sink.paused ? "paused" : "playing" });
    this.reports = setInterval(report, REPORT_MS);
  }

  private takeWords(words: [number, number, number, number][]): void {
    const ms = (sample: number) => (sample / this.rateHz) * 1000;
    for (const [start, end, from, to] of words) this.words.push([start, end, ms(from), ms(to)]);
  }

  private play(base64: string): void {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const samples = new Int16Array(bytes.buffer);
    this.receivedMs += (samples.length / this.rateHz) * 1000;
    if (!this.silenced) this.sink.write(samples);
  }

  private done(message: Fields): void {
    const heard = message.heard as Fields | undefined;
    if (!this.silenced && this.rateHz) this.sink.finish();
    this.settle({
      reason: message.reason as Ending["reason"],
      heard: heard && this.heard(heard),
      message: this.error.message as string | undefined,
      retryAfterMs: this.error.retry_after_ms as number | undefined,
    });
  }

  private heard(wire: Fields): Heard {
    return { end: this.units(wire.end_char as number), exact: wire.exact as boolean };
  }

  private silence(): void {
    this.silenced = true;
    clearInterval(this.reports);
    if (this.rateHz) this.sink.stop();
  }

  private settle(ending: Ending): void {
    if (this.over) {
      this.receipt?.(ending);
      return;
    }
    this.over = true;
    clearInterval(this.reports);
    if (ending.reason === "complete") setTimeout(this.forget, RECEIPT_MS);
    else this.forget();
    this.end(ending);
  }

  /** The server counts code points, JavaScript counts UTF-16 units. */
  private units(codePoints: number): number {
    return Array.from(this.text).slice(0, codePoints).join("").length;
  }
}
