"""Both ends wired together by two queues, in every order that a network can make of it."""

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.codec import JSON, MSGPACK, Codec
from protocol.conversation import Apply, ClientConversation, Close, Fail, Ignore, Refuse, ServerConversation
from protocol.errors import BadMessage, make_error
from protocol.limits import Limits
from protocol.messages import (
    Audio,
    Cancel,
    CancelAll,
    ClientMessage,
    Done,
    DoneReason,
    End,
    Error,
    Flush,
    Heard,
    Open,
    Ping,
    Played,
    ServerMessage,
    Text,
)
from tests.protocol.examples import audio, done, flushed, heard, hello, queued, segment, started, words

IDS = st.sampled_from("abcd")
LETTERS = {
    "queued": "Q",
    "started": "S",
    "segment": "G",
    "words": "W",
    "audio": "A",
    "flushed": "F",
    "error": "E",
}
ONE_LIFE = r"[QF]*(S(F|GW*A*)*)?(D|ET)H?"
ANY_LIVES = re.compile(f"({ONE_LIFE})*")


@dataclass
class Speaker:
    """What a server's session keeps of one utterance: enough to speak nonsense in good order."""

    opened: Open
    marks: list[str | int | None] = field(default_factory=list)
    ended: bool = False
    is_started: bool = False
    in_segment: bool = False
    has_audio: bool = False
    segments: int = 0
    frames: int = 0
    samples: int = 0


class Conversation(RuleBasedStateMachine):
    """The rules are what either end, or the network, may do next."""

    @initialize(codec=st.sampled_from([MSGPACK, JSON]))
    def connect(self, codec: Codec) -> None:
        limits = Limits(utterances=3, receipt_s=10, receipts=4, pending_flushes=3, total_chars=40)
        self.codec = codec
        self.client = ClientConversation()
        self.server = ServerConversation(limits)
        self.now_s = 0.0
        self.to_server: deque[Any] = deque()
        self.to_client: deque[Any] = deque()
        self.speakers: dict[str, Speaker] = {}
        self.receipts: set[str] = set()
        self.client_ended: set[str] = set()
        self.opened_count: dict[str, int] = {}
        self.log: dict[str, str] = {}
        self.closed = False
        self.serve(hello(limits))

    # The client

    def speak(self, message: ClientMessage) -> None:
        for part in self.client.send(message):
            self.to_server.append(self.codec.encode_client(part))

    @rule(id_=IDS, words_=st.booleans(), replaces=st.none() | IDS)
    def open(self, id_: str, words_: bool, replaces: str | None) -> None:
        if id_ in self.client.open_ids and replaces != id_:
            return
        self.client_ended.discard(id_)
        self.opened_count[id_] = self.opened_count.get(id_, 0) + 1
        self.speak(Open(id=id_, words=words_, replaces=replaces))

    @rule(id_=IDS, text=st.sampled_from(["x", "one two", "", "x\ud83d", "\ude00y"]))
    def text(self, id_: str, text: str) -> None:
        if id_ in self.opened_count and id_ not in self.client_ended:
            self.speak(Text(id=id_, text=text))

    @rule(id_=IDS, mark=st.none() | st.integers(0, 3))
    def flush(self, id_: str, mark: int | None) -> None:
        if id_ in self.opened_count and id_ not in self.client_ended:
            self.speak(Flush(id=id_, mark=mark))

    @rule(id_=IDS)
    def end(self, id_: str) -> None:
        if id_ in self.opened_count and id_ not in self.client_ended:
            self.client_ended.add(id_)
            self.speak(End(id=id_))

    @rule(id_=IDS)
    def cancel(self, id_: str) -> None:
        if id_ in self.opened_count:
            self.speak(Cancel(id=id_, played_ms=5))

    @rule()
    def cancel_all(self) -> None:
        self.speak(CancelAll())

    @rule(id_=IDS)
    def played(self, id_: str) -> None:
        if id_ in self.opened_count:
            self.speak(Played(id=id_, ms=1))

    @rule(
        junk=st.sampled_from([b"\xc1", b"\x81\xa4type\xa4sing", b"\x82\xa4type\xa4text\xa2id\xa1a"]),
        ping=st.booleans(),
    )
    def babble(self, junk: bytes, ping: bool) -> None:
        self.to_server.append(junk)
        if ping:
            self.speak(Ping(t=1))

    @rule(id_=IDS)
    def stray(self, id_: str) -> None:
        """A word about an id that the server may not know, past our own end's check."""
        self.to_server.append(self.codec.encode_client(Played(id=id_ + "?", ms=1)))

    # The network

    @rule(count=st.integers(1, 8))
    def carry_up(self, count: int) -> None:
        for _ in range(min(count, len(self.to_server))):
            if not self.closed:
                self.take(self.to_server.popleft())

    @rule(count=st.integers(1, 8))
    def carry_down(self, count: int) -> None:
        for _ in range(min(count, len(self.to_client))):
            message = self.codec.decode_server(self.to_client.popleft())
            self.client.receive(message)
            self.note(message)

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        for id_ in self.server.expire(self.now_s):
            self.receipts.discard(id_)
        due_s = self.server.next_expiry_s
        assert due_s is None or due_s > self.now_s

    def note(self, message: ServerMessage) -> None:
        kind = str(message.__struct_config__.tag)
        match message:
            case Done(id=id_, reason=reason):
                letter = "T" if reason in ("failed", "timeout") else "D"
                self.log[id_] = self.log.get(id_, "") + letter
            case Heard(id=id_):
                self.log[id_] = self.log.get(id_, "") + "H"
            case _:
                about = getattr(message, "id", None)
                if about is not None:
                    self.log[about] = self.log.get(about, "") + LETTERS[kind]

    # The server

    def serve(self, *messages: ServerMessage) -> None:
        for message in messages:
            self.server.send(message, self.now_s)
            self.to_client.append(self.codec.encode_server(message))

    def take(self, data: Any) -> None:
        try:
            message = self.codec.decode_client(data)
        except BadMessage as bad:
            verdict = self.server.receive_bad(bad, self.now_s)
        else:
            verdict = self.server.receive(message, self.now_s)
        match verdict:
            case Apply(message, cancels, receipts):
                self.stop(cancels, receipts, "replaced" if isinstance(message, Open) else "cancelled")
                self.apply(message)
            case Refuse(messages, cancels, receipts):
                self.stop(cancels, receipts, "replaced")
                for refused in messages:
                    if isinstance(refused, Done):
                        self.receipts.discard(refused.id)
                self.serve(*messages)
            case Fail(id_, error):
                self.serve(error)
                self.serve(done("failed", self.speakers.pop(id_).samples, id_=id_))
            case Close(_, _, messages):
                self.serve(*messages)
                self.closed = True
            case Ignore():
                pass

    def apply(self, message: ClientMessage) -> None:
        match message:
            case Open(id=id_):
                assert id_ not in self.speakers
                self.receipts.discard(id_)
                self.speakers[id_] = Speaker(message)
            case Flush(id=id_, mark=mark):
                self.speakers[id_].marks.append(mark)
            case End(id=id_):
                self.speakers[id_].ended = True
            case Text(id=id_, text=text):
                assert id_ in self.speakers
                text.encode()
            case _:
                pass

    def stop(self, cancels: tuple[str, ...], receipts: tuple[str, ...], reason: DoneReason) -> None:
        for id_ in cancels:
            self.serve(done(reason, self.speakers.pop(id_).samples, id_=id_))
        for id_ in receipts:
            self.receipts.remove(id_)
            self.serve(heard(id_))

    @precondition(lambda self: self.speakers)
    @rule(data=st.data())
    def say_something(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.speakers)))
        speaker = self.speakers[id_]
        step = data.draw(st.sampled_from(self.possible(speaker)))
        match step:
            case "queued":
                self.serve(queued(id_))
            case "started":
                speaker.is_started = True
                self.serve(started(id_))
            case "segment":
                at = speaker.segments
                speaker.segments += 1
                speaker.in_segment, speaker.has_audio = True, False
                self.serve(segment(at, 10 * at, 10 * at + 5, speaker.samples, id_))
            case "words":
                self.serve(words((0, 1, 0, 1), id_=id_))
            case "audio":
                self.serve(audio(speaker.frames, speaker.samples, 3, id_))
                speaker.frames, speaker.samples, speaker.has_audio = (
                    speaker.frames + 1,
                    speaker.samples + 3,
                    True,
                )
            case "flushed":
                speaker.in_segment = False
                self.serve(flushed(speaker.samples, speaker.marks.pop(0), id_))
            case "failed":
                self.serve(
                    make_error("engine_failed", "fault", id=id_), done("failed", speaker.samples, id_=id_)
                )
                del self.speakers[id_]
            case "complete":
                self.serve(done("complete", speaker.samples, id_=id_))
                del self.speakers[id_]
                self.receipts.add(id_)

    def possible(self, speaker: Speaker) -> list[str]:
        steps = ["failed"]
        steps += ["segment"] if speaker.is_started else ["queued", "started"]
        if speaker.in_segment:
            steps += ["audio"] * 3
            if speaker.opened.words and not speaker.has_audio:
                steps.append("words")
        if speaker.marks:
            steps.append("flushed")
        if speaker.ended and not speaker.marks:
            steps += ["complete"] * 2
        return steps

    # What always holds

    @invariant()
    def the_server_knows_what_is_open(self) -> None:
        if hasattr(self, "server"):
            assert set(self.server.open_ids) == set(self.speakers)

    @invariant()
    def what_arrived_is_in_the_pages_order(self) -> None:
        for line in getattr(self, "log", {}).values():
            assert (
                ANY_LIVES.fullmatch(line)
                or ANY_LIVES.fullmatch(line + "D")
                or ANY_LIVES.fullmatch(line + "T")
            )

    def teardown(self) -> None:
        """Let all arrive, stop all: each `open` has had exactly one `done`."""
        if not hasattr(self, "server"):
            return
        self.carry_up(len(self.to_server))
        if self.closed:
            return
        self.carry_down(len(self.to_client))
        self.speak(CancelAll())
        self.carry_up(len(self.to_server))
        self.carry_down(len(self.to_client))
        assert self.client.open_ids == ()
        for id_, count in self.opened_count.items():
            line = self.log.get(id_, "")
            assert line.count("D") + line.count("T") == count
            assert ANY_LIVES.fullmatch(line)


TestConversation = Conversation.TestCase


def test_the_pages_example() -> None:
    client, server = ClientConversation(), ServerConversation(Limits())
    server.send(hello(), 0)
    client.receive(hello())
    for message in (
        Open(id="a"),
        Text(id="a", text="Hel"),
        Text(id="a", text="lo. It is 3."),
        Text(id="a", text="5 degrees."),
        End(id="a"),
    ):
        assert server.receive(client.send(message)[0], 0) == Apply(message)
    for reply in (
        started(),
        segment(0, 0, 6, 0),
        audio(),
        segment(1, 7, 25, 480),
        audio(1, 480),
        done(samples=960, chars=25),
    ):
        server.send(reply, 0)
        assert client.receive(reply)
    cancel = Cancel(id="a", played_ms=900)
    assert server.receive(client.send(cancel)[0], 1) == Apply(cancel, receipts=("a",))
    server.send(heard(), 1)
    assert client.receive(heard())


def test_an_error_without_id_ends_nothing() -> None:
    client = ClientConversation()
    client.receive(hello())
    client.send(Open(id="a"))
    assert client.receive(Error(code="bad_message", message="?", retryable=False))
    assert client.receive(started())
    assert client.receive(segment())
    assert client.receive(Audio(id="a", seq=0, at_sample=0, pcm=b"\0\0"))
