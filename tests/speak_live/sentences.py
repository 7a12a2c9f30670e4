"""Twenty sentences as an assistant would say them."""

SENTENCES = (
    "The library closes at six this evening.",
    "I moved your meeting to Thursday afternoon, and told the others about it.",
    "There is a light rain outside, so take an umbrella with you.",
    "Your package should arrive before the weekend.",
    "She said that the blue door opens only from the inside.",
    "Boil the water first, then add the rice and a pinch of salt.",
    "I could not find that song, but here is a similar one.",
    "The train to the coast leaves from the last platform.",
    "Would you like me to read the next chapter?",
    "Turn left after the bridge and follow the river.",
    "The kitchen lights are off, and the front door is locked.",
    "My brother plays the piano every morning.",
    "We planted apple trees behind the old barn.",
    "That answer was correct, well done!",
    "The museum has a new room full of paintings from the north.",
    "Please remind me to call the doctor tomorrow.",
    "A small dog waited quietly beside the garden gate.",
    "The water in the lake is cold, even in summer.",
    "He bought fresh bread, some cheese, and a bottle of milk.",
    "Good night, and sleep well.",
)
