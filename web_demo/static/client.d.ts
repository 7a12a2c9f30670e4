/** Types of saystream's browser client. What each thing does is said in client.js and in the manual, "The browser client". */

export const SUBPROTOCOL: "saystream.v1.msgpack";

export type Wire = null | boolean | number | bigint | string | Uint8Array | Wire[] | { [key: string]: Wire | undefined };
export function encode(value: Wire): Uint8Array;
export function decode(bytes: Uint8Array | ArrayBuffer): Wire;

/** A text that grows, counted in UTF-16 units (`text.length`) and in code points (`length`). */
export class CountedText {
  text: string;
  readonly length: number;
  append(piece: string): void;
  toUtf16(codePoints: number): number;
  fromUtf16(units: number): number;
}
/** `[whole characters, half a character at the end or ""]` */
export function wholeCharacters(text: string): [string, string];

export function samplesOf(pcm: Uint8Array, format: "s16le" | "f32le"): Float32Array;

export class Resampler {
  constructor(fromHz: number, toHz: number);
  push(samples: Float32Array): Float32Array;
  flush(): Float32Array;
}

export class Ring {
  constructor(frames: number, mostFrames: number);
  available: number;
  push(samples: Float32Array): boolean;
  shift(): number;
}

export class Cushion {
  constructor(options?: { ms?: number; leastMs?: number; mostMs?: number });
  ms: number;
  gap(): void;
  played(ms: number): void;
}

export type PlayState = "waiting" | "playing" | "dry" | "paused" | "finished";

export class Playout {
  constructor(rateHz: number, cushionMs: number);
  state: PlayState;
  frames: number;
  dries: number;
  overrun: boolean;
  readonly inHand: number;
  obey(command: { verb: string; samples?: Float32Array; ms?: number }): void;
  pull(out: Float32Array): void;
}

interface Typed<Events> {
  addEventListener<Name extends keyof Events & string>(
    type: Name, listener: (event: Event & { detail: Events[Name] }) => void, options?: boolean | AddEventListenerOptions): void;
  removeEventListener<Name extends keyof Events & string>(
    type: Name, listener: (event: Event & { detail: Events[Name] }) => void, options?: boolean | EventListenerOptions): void;
}

export interface PlayerOptions {
  context?: AudioContext | null;
  /** Where this module is served from, if a bundler has moved it. */
  workletUrl?: string;
  cushion?: Cushion;
}

export class Player extends EventTarget {
  constructor(options?: PlayerOptions);
  cushion: Cushion;
  readonly mode: "none" | "worklet" | "scheduled";
  readonly problem: string;
  readonly context: AudioContext;
  readonly mixer: GainNode;
  readonly analyser: AnalyserNode;
  readonly running: boolean;
  readonly rateHz: number;
  unlock(): Promise<boolean>;
  suspend(): Promise<void>;
  close(): void;
}

/** An error in the words of the protocol, or `unreachable`, `connection_lost`, `overrun`. */
export interface Problem {
  code: string;
  message: string;
  retryable: boolean;
  retry_after_ms?: number;
  param?: string;
  value?: unknown;
}

export interface Heard {
  /** In UTF-16 units of `utterance.text`. */
  end: number;
  /** In code points. */
  endChar: number;
  exact: boolean;
  playedMs: number;
}

export interface Stats {
  queue_ms: number;
  ttfa_ms: number | null;
  cut_ms: number | null;
  wait_ms: number | null;
  engine_ms: number | null;
  send_ms: number | null;
  audio_ms: number;
  compute_ms: number;
  segments: number;
  forced_cuts: number;
  gaps: number;
  cache_hits: number;
  unspoken_chars: number;
}

export interface Result {
  /** `lost`: the connection was. */
  reason: "complete" | "cancelled" | "replaced" | "failed" | "timeout" | "lost";
  heard?: Heard;
  samples?: number;
  chars?: number;
  tag?: string;
  stats?: Stats;
  error: Problem | null;
}

export interface SpeakOptions {
  voice?: string;
  engine?: string;
  language?: string;
  format?: "s16le" | "f32le";
  sample_rate_hz?: 8000 | 16000 | 22050 | 24000 | 44100 | 48000;
  frame_ms?: number;
  speed?: number;
  lead_ms?: number;
  cushion_ms?: number;
  wait_ms?: number;
  words?: boolean;
  cache?: boolean;
  markup?: "markdown" | "plain";
  seed?: number | bigint;
  options?: Record<string, Wire>;
  tag?: string;
  /** The utterance that this one interrupts. */
  replaces?: Utterance;
  /** From -1 (left) to 1 (right). */
  pan?: number;
  /** `false`: nothing is played; take the samples from the `audio` events. */
  playback?: boolean;
}

export interface SpokenSegment {
  index: number;
  startChar: number;
  endChar: number;
  start: number;
  end: number;
  atMs: number;
}

export interface SpokenWord {
  start: number;
  end: number;
  startMs: number;
  endMs: number;
}

export interface Started {
  engine: string;
  checkpoint: string;
  voice: string;
  language: string;
  format: "s16le" | "f32le";
  sample_rate_hz: number;
  words: "exact" | "estimated" | "none";
}

export interface UtteranceEvents {
  queued: { reason: "busy" | "loading"; position?: number; wait_ms?: number };
  started: Started;
  segment: SpokenSegment;
  words: { words: [number, number, number, number][] };
  audio: { samples: Float32Array; atSample: number };
  state: { state: PlayState };
  gap: { at: number };
  flushed: { mark?: string | number; at_sample: number };
  error: Problem;
  done: Result;
  played: Record<string, never>;
}

export interface Utterance extends Typed<UtteranceEvents> {}
export class Utterance {
  private constructor();
  readonly id: string;
  readonly text: string;
  readonly state: PlayState;
  readonly started: Started | null;
  readonly closed: boolean;
  readonly segments: readonly SpokenSegment[];
  readonly words: readonly SpokenWord[];
  readonly gaps: number;
  readonly dries: number;
  readonly firstSoundMs: number | null;
  readonly playedMs: number;
  readonly receivedMs: number;
  readonly inHandMs: number;
  readonly heardUnits: number;
  readonly speaking: { segment: SpokenSegment | null; word: SpokenWord | null } | null;
  readonly error: Problem | null;
  readonly result: Result | null;
  /** Never rejects: a failure is a `reason` and an `error`. */
  readonly done: Promise<Result>;
  readonly played: Promise<Result | null>;
  feed(text: string): this;
  flush(mark?: string | number): void;
  end(): void;
  pipe(increments: AsyncIterable<string> | Iterable<string>): Promise<Result>;
  stop(): Promise<Heard>;
  pause(): void;
  resume(): void;
}

export interface Limits {
  utterances: number;
  text_chars: number;
  total_chars: number;
  message_bytes: number;
  queue: number;
  idle_s: number;
  utterance_idle_s: number;
  queue_wait_s: number;
  lead_ms: number;
  receipt_s: number;
  wait_ms: number;
}

export interface Hello {
  protocol: string;
  server: string;
  session: string;
  replica: string;
  engine: string;
  voice: string;
  sample_rate_hz: number;
  formats: string[];
  limits: Limits;
  load: number;
  features: string[];
}

export type ClientState = "idle" | "connecting" | "open" | "waiting" | "refused" | "closed";

export interface ClientEvents {
  state: { state: ClientState; error: Problem | null };
  hello: Hello;
  error: Problem;
  utterance: { utterance: Utterance };
}

export interface ClientOptions {
  /** The server's address; by default where the module came from. */
  url?: string;
  token?: string | null | (() => string | null | Promise<string | null>);
  player?: Player;
}

export interface SpeechClient extends Typed<ClientEvents> {}
export class SpeechClient {
  constructor(options?: ClientOptions);
  readonly state: ClientState;
  readonly error: Problem | null;
  readonly retryAt: number | null;
  readonly hello: Hello | null;
  readonly limits: Limits | null;
  readonly player: Player;
  readonly utterances: Utterance[];
  unlock(): Promise<boolean>;
  connect(): Promise<void>;
  speak(options?: SpeakOptions): Utterance;
  stopAll(): Promise<Heard[]>;
  close(): void;
}
