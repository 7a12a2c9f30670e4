"""The `saystream` command."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, cast

from saystream import shadow
from saystream.address import DEFAULT_URL
from saystream.errors import CannotConnect, ClientError, ConnectionLost, HandshakeRefused, UtteranceFailed
from saystream.terminal import plain

if TYPE_CHECKING:
    from saystream.client import OpenFields

FAILED, USAGE, UNREACHABLE = 1, 2, 3
_STATUSES = "exit status: 0 done, 1 refused or failed, 2 wrong use, 3 no connection, 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        shadow.check()
    except shadow.ShadowedError as error:
        return _fail(str(error), FAILED)
    if arguments[:1] == ["serve"]:
        from ws_server.serve import main as serve

        return serve(arguments[1:])
    if arguments[:1] == ["check"]:
        from ws_server.serve import check

        return check(arguments[1:])
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except* (ClientError, OSError, ValueError) as group:
        return_value = _explain(_first(group))
    except* KeyboardInterrupt:
        return_value = 130
    return return_value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="saystream", description="Speak text while it is being written.", epilog=_STATUSES
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('saystream')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    commands.add_parser("serve", help="run the server (saystream serve --help)", add_help=False)
    commands.add_parser("check", help="check the server's settings and start nothing", add_help=False)
    _add_say(
        commands.add_parser("say", help="speak a text, or what comes on standard input", epilog=_STATUSES)
    )
    _add_bench(commands.add_parser("bench", help="how many listeners a server can hold without a gap"))
    _add_engines(commands.add_parser("engines", help="the engines of a server"))
    _add_voices(commands.add_parser("voices", help="the voices of a server"))
    return parser


def _add_server(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """`again`: the parser above has them too, and what was said there stands."""
    url = os.environ.get("SAYSTREAM_URL", DEFAULT_URL)
    key = os.environ.get("SAYSTREAM_KEY")
    parser.add_argument("--url", default=argparse.SUPPRESS if again else url, help=f"of the server ({url})")
    parser.add_argument(
        "--key", default=argparse.SUPPRESS if again else key, help="its key (default: $SAYSTREAM_KEY)"
    )


def _add_say(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text", nargs="?", default="-", help="what to say; - (the default): standard input, live"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write there, not to the loudspeaker; -: standard output"
    )
    parser.add_argument("--raw", action="store_true", help="samples alone, no WAV header")
    parser.add_argument("--voice")
    parser.add_argument("--engine")
    parser.add_argument("--language", help="BCP-47 tag or English name")
    parser.add_argument("--speed", type=float)
    parser.add_argument("--format", choices=["s16le", "f32le", "mulaw", "alaw"])
    parser.add_argument("--rate", type=int, choices=[8000, 16000, 22050, 24000, 44100, 48000], help="in Hz")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--lead-ms", type=float, help="how far ahead of the playhead; 0: no limit")
    parser.add_argument("--plain", action="store_true", help="the text isn't Markdown")
    parser.add_argument("-v", "--verbose", action="store_true", help="print where the time went")
    _add_server(parser)
    parser.set_defaults(run=_say)


def _add_engines(parser: argparse.ArgumentParser) -> None:
    _add_server(parser)
    parser.set_defaults(run=_engines)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_server(commands.add_parser("list", help="list them (the same as without a command)"), again=True)
    for verb, help_text in (
        ("load", "load one, and wait until it can speak"),
        ("unload", "give its memory back"),
        ("pin", "load one, and keep it loaded"),
        ("unpin", "let it go when it is idle"),
    ):
        command = commands.add_parser(verb, help=help_text)
        command.add_argument("name")
        if verb == "unload":
            command.add_argument(
                "--drain", action="store_true", help="when what is being spoken has ended, instead of now"
            )
        command.set_defaults(run=_change_engine, verb=verb, drain=False)
        _add_server(command, again=True)


def _add_voices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", help="only those that this engine speaks with")
    _add_server(parser)
    parser.set_defaults(run=_voices)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    listed = commands.add_parser("list", help="list them (the same as without a command)")
    listed.add_argument("--engine", default=argparse.SUPPRESS, help="only those that this engine speaks with")
    add = commands.add_parser("add", help="make a voice of a recording, ten to thirty seconds long")
    add.add_argument("file", type=Path, help="the recording: wav, flac, ogg, mp3")
    add.add_argument("--name", help="a label; the voice is asked for by the id that is printed")
    add.add_argument("--text", dest="ref_text", help="what is said in it, word for word")
    add.add_argument("--language", help="BCP-47 tag or English name")
    add.add_argument("--engine", default=argparse.SUPPRESS, help="the only engine that may use it")
    add.add_argument("--mode", choices=["audio", "audio+text"], help="how engines may use it")
    add.add_argument("--seed-file", type=Path, metavar="FILE", help="a second recording, whose tone is kept")
    add.add_argument("--seed-text", help="what is said in it")
    add.set_defaults(run=_add_voice)
    remove = commands.add_parser("remove", help="remove a voice that was added")
    remove.add_argument("voice_id")
    remove.set_defaults(run=_remove_voice)
    for command in (listed, add, remove):
        _add_server(command, again=True)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listeners", type=int, help="measure just so many (default: ramp until gaps appear)"
    )
    parser.add_argument("--start", type=int, default=10, help="the ramp's first number (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement (%(default)s)")
    parser.add_argument(
        "--tokens-per-s", type=float, default=30, help="that each listener sends (%(default)s)"
    )
    parser.add_argument("--corpus", metavar="FILE", help="one reply a line; \\n for a line break")
    parser.add_argument("--engine")
    parser.add_argument("--voice")
    _add_server(parser)
    parser.set_defaults(run=_bench)


def _say(options: argparse.Namespace) -> int:
    from saystream import say

    order = say.Order(
        url=options.url,
        key=options.key,
        text=None if options.text == "-" else options.text,
        output=options.output,
        raw=options.raw,
        verbose=options.verbose,
        fields=_fields(options),
    )
    try:
        return asyncio.run(say.say(order))
    except say.NowhereToPlayError as error:
        return _fail(str(error), USAGE)


def _fields(options: argparse.Namespace) -> "OpenFields":
    wanted = {
        "voice": options.voice,
        "engine": options.engine,
        "language": options.language,
        "speed": options.speed,
        "format": options.format,
        "sample_rate_hz": options.rate,
        "seed": options.seed,
        "lead_ms": options.lead_ms,
        "markup": "plain" if options.plain else None,
    }
    return cast("OpenFields", {name: value for name, value in wanted.items() if value is not None})


def _engines(options: argparse.Namespace) -> int:
    from saystream import listing

    print(listing.engines(options.url, options.key))  # noqa: T201 - the command's result
    return 0


def _change_engine(options: argparse.Namespace) -> int:
    from saystream import listing

    changed = listing.change_engine(options.url, options.key, options.name, options.verb, drain=options.drain)
    print(changed)  # noqa: T201 - the command's result
    return 0


def _voices(options: argparse.Namespace) -> int:
    from saystream import listing

    print(listing.voices(options.url, options.key, options.engine))  # noqa: T201 - the command's result
    return 0


def _add_voice(options: argparse.Namespace) -> int:
    from saystream import voices

    files = {"audio": options.file, "seed_audio": options.seed_file}
    names = ("ref_text", "name", "language", "engine", "mode", "seed_text")
    fields = {name: getattr(options, name) for name in names}
    added = voices.add(
        options.url,
        options.key,
        {name: path for name, path in files.items() if path is not None},
        {name: value for name, value in fields.items() if value is not None},
    )
    print(added)  # noqa: T201 - the command's result
    return 0


def _remove_voice(options: argparse.Namespace) -> int:
    from saystream import voices

    voices.remove(options.url, options.key, options.voice_id)
    return 0


def _bench(options: argparse.Namespace) -> int:
    from saystream import ramp

    return ramp.main(options)


def _first(group: BaseExceptionGroup) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _explain(error: BaseException) -> int:
    match error:
        case CannotConnect():
            return _fail(f"{error}\nIs the server running? `saystream serve` starts one.", UNREACHABLE)
        case ConnectionLost():
            return _fail(
                f"the connection was lost after {error.heard.end_char} characters: {error}", UNREACHABLE
            )
        case HandshakeRefused(retry_after_s=float() as pause_s):
            return _fail(f"{error}; try again in {pause_s:.0f} s", FAILED)
        case UtteranceFailed(retry_after_ms=float() | int() as pause_ms):
            return _fail(f"{error}; try again in {pause_ms / 1000:.1f} s", FAILED)
        case ValueError():
            return _fail(str(error), USAGE)
        case BrokenPipeError():
            return FAILED  # whoever reads our output has gone, and knows
        case _:
            return _fail(str(error), FAILED)


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"saystream: {plain(message)}\n")
    return status
