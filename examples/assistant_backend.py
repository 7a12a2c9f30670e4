"""A voice assistant's back end: tokens go in as the model writes them, and the user may interrupt.

    saystream serve &
    python examples/assistant_backend.py

Type a question; type again while it speaks to interrupt. The audio goes to FILE or, by default, nowhere: put your
telephone line, WebRTC track or loudspeaker where `Ear` is.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from saystream import Client, ClientError, Utterance, UtteranceOver


class Ear:
    """Stands for the listener's device: takes frames at once and hears them in real time."""

    def __init__(self, path: str | None) -> None:
        self._file = Path(path).open("ab", buffering=0) if path else None  # noqa: SIM115 - as long as the program

    def take(self, pcm: bytes) -> None:
        if self._file is not None:
            self._file.write(pcm)


async def model(question: str) -> AsyncIterator[str]:
    """Put a language model's token stream here."""
    answer = (
        f"You said: {question.strip()}. That is a good question, and I would like to answer it at some length. "
        "First, I would have to know more. Second, I am only an example, and examples know very little."
    )
    for word in answer.split(" "):
        await asyncio.sleep(1 / 30)
        yield word + " "


async def answer(
    client: Client,
    ear: Ear,
    question: str,
    previous: Utterance | None,
    opened: asyncio.Future[Utterance | None],
) -> None:
    """Speak the model's answer; what is still being spoken is cut off in the same message."""
    try:
        async with client.utterance(replaces=previous, words=True) as u:
            opened.set_result(u)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(listen(u, ear))
                try:
                    async for token in model(question):
                        await u.feed(token)
                    await u.end()
                except UtteranceOver:  # interrupted: the model needn't go on
                    pass
            done = await u.done
            print(f"[{done.reason}; heard: {done.heard.end_char if done.heard else done.chars} characters]")
    except* ClientError as group:
        print(f"[{group.exceptions[0]}]")
        if not opened.done():
            opened.set_result(None)


async def listen(u: Utterance, ear: Ear) -> None:
    async for frame in u:
        ear.take(frame.pcm)


async def main() -> None:
    async with Client(arguments().url, key=arguments().key) as client, asyncio.TaskGroup() as tasks:
        ear = Ear(arguments().output)
        previous: Utterance | None = None
        while question := await asyncio.to_thread(sys.stdin.readline):
            opened: asyncio.Future[Utterance | None] = asyncio.get_running_loop().create_future()
            tasks.create_task(answer(client, ear, question, previous, opened))
            previous = await opened


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="ws://127.0.0.1:8765")
    parser.add_argument("--key")
    parser.add_argument("--output", help="raw samples are appended there")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
