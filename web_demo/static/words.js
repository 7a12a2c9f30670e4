/** What the page says when something is wrong: what happened, and what to do about it. */

const seconds = (ms) => `${Math.max(1, Math.round(ms / 1000))} s`;

const SENTENCES = {
  unauthorized: () => ["This server wants a key.", "Enter one below; whoever runs the server has it."],
  forbidden: () => [
    "This server doesn't take visitors from this address.",
    `Start it with --origins ${location.origin} (and --hosts ${location.hostname}), or open the page by its own address.`,
  ],
  unreachable: () => ["The server doesn't answer.", "Is “saystream serve” running, and the network up?"],
  connection_lost: () => ["The connection was lost.", "What was said is said; write on, and it goes on from there."],
  shutting_down: () => ["This server is about to stop.", "A new one takes over as soon as it is up."],
  busy: ({ retry_after_ms: ms }) => [
    "Every place is taken.",
    ms ? `Try again in ${seconds(ms)}.` : "Try again in a moment.",
  ],
  rate_limited: ({ retry_after_ms: ms }) => ["That was more than this key allows.", `Wait ${seconds(ms ?? 60000)}.`],
  too_many_utterances: () => ["Too many voices at once for one page.", "Let some of them finish first."],
  engine_unavailable: ({ message }) => ["This engine can't be used just now.", `${message}. Choose another one.`],
  engine_failed: ({ message }) => ["The engine couldn't go on.", `${message} Choose another voice if it stays so.`],
  engine_stalled: () => ["The engine stopped answering.", "Say it again in a moment, or choose another engine."],
  unknown_voice: () => ["This voice isn't there any more.", "Choose another one."],
  unknown_engine: () => ["This engine isn't there any more.", "Choose another one."],
  unsupported_language: () => [
    "This voice can't read that script.", "Choose a voice that speaks the language of the text.",
  ],
  text_too_long: () => ["This is more than one text may hold.", "Clear the box and go on in a new one."],
  idle_timeout: () => ["Nothing came for a long while, so the text was ended.", "Write on, and a new one begins."],
  not_heard: () => ["The browser keeps the sound off until you touch the page.", "Click anywhere or press a key."],
  no_worklet: () => [
    "This page came over plain http from another machine, so the browser withholds its audio thread.",
    "It plays in a simpler way, which a busy tab can disturb. Start the server with --tls-cert and --tls-key for the full one.",
  ],
  chat_unreachable: ({ message }) => [
    "The model's endpoint couldn't be read.",
    `${message} It must allow this page's origin, ${location.origin} (CORS).`,
  ],
  chat_refused: ({ message }) => ["The model's endpoint refused.", message],
};

/** `[what happened, what to do]` */
export function inWords(error) {
  const sentence = SENTENCES[error.code];
  if (sentence) return sentence(error);
  return ["Something went wrong.", error.message ? `The server says: ${error.message}.` : ""];
}

/** The same in one or two words, where there is little room. */
export const inBrief = ({ code }) => ({ busy: "no place", connection_lost: "cut off" })[code] ?? "failed";

export const CONNECTION = {
  idle: "Ready",
  connecting: "Connecting",
  open: "Connected",
  waiting: "Not connected",
  refused: "Refused",
  closed: "Closed",
};
