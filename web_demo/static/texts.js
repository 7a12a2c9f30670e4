/** Texts to show with, and how a model would write them: in pieces of a few letters. */

export const ANSWERS = [
  {
    title: "Why is the sky blue?",
    text:
      "Sunlight looks white, but it is every colour at once. On its way down it meets the air, and the air scatters " +
      "blue light about ten times as much as red. So blue comes to your eyes from all over the sky, while the rest " +
      "goes straight on. In the evening the light has a longer way through the air. Most of the blue is lost before " +
      "it reaches you, and what is left is gold and red.",
  },
  {
    title: "How do I keep a plant alive?",
    text:
      "Most house plants die of kindness. Put a finger into the soil: if it is damp, leave the can alone. Give it a " +
      "window, but not the hot glass of noon. Once a month, turn the pot by a quarter, or it will lean towards the " +
      "light like someone at a bus stop. And if a leaf goes yellow, don't worry. One leaf is weather; five are a message.",
  },
  {
    title: "What should we cook tonight?",
    text:
      "How about an omelette? You need three eggs, a spoon of butter, and two minutes. Beat the eggs with a pinch of " +
      "salt, let the butter foam, and pour. Draw the edges to the middle, wait until the top is almost set, then fold " +
      "it in half. Eat it at once, with bread, and don't answer the phone.",
  },
];

export const CHORUS = [
  "The tide turns twice a day, and nobody has to wind it. It has kept its time since long before there were clocks.",
  "In the north the winter light is blue. Snow takes it in at noon and gives it back until the evening.",
  "A lighthouse says one word, again and again. The ships know which one it is by the pause after it.",
  "Bread wants flour, water, salt and patience. The first three you can buy at the corner.",
  "Swifts sleep on the wing. For months on end they don't touch the ground, not even to dream.",
  "An old map is honest about the edges. Here, it says, we stopped, and someone drew a whale.",
  "The river is older than the hill it cuts. It was here first, and the hill rose slowly around it.",
  "A good knot holds until you ask it not to. That is more than can be said of most promises.",
];

/** Pieces like a model's tokens: a few letters each, the white space in front. Joined they are the text. */
export function tokens(text) {
  return text.match(/\s*\S{1,5}|\s+$/gu) ?? [];
}

/** The increments at a pace that may change on the way. `pace()` is in tokens a second; `signal` ends it. */
export async function* paced(increments, pace, signal) {
  for (const increment of increments) {
    await new Promise((resolve) => setTimeout(resolve, 1000 / pace()));
    if (signal.aborted) return;
    yield increment;
  }
}
