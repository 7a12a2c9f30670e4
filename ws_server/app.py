"""The application: sockets go straight to `/v1/speak`, all else through Starlette."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ws_server.http import drain, engines, health, openapi, tokens, voices
from ws_server.http.errors import TABLE, Problem, respond
from ws_server.http.page import page_routes
from ws_server.http.tts import Tts
from ws_server.http.tts_bodies import AUDIO_HEADERS
from ws_server.lag import watch_lag
from ws_server.plan import Refusal
from ws_server.services import Services
from ws_server.settings import Settings
from ws_server.speak import Receive, Scope, Send, SpeakEndpoint

API_ROUTES = (
    Route("/livez", health.livez, methods=["GET"]),
    Route("/readyz", health.readyz, methods=["GET"]),
    Route("/health", health.health, methods=["GET"]),
    Route("/v1/engines", engines.list_engines, methods=["GET"]),
    *(
        Route(f"/v1/engines/{{name}}/{verb}", endpoint.answer, methods=["POST"])
        for verb, endpoint in engines.VERBS.items()
    ),
    Route("/v1/voices", voices.list_voices, methods=["GET"]),
    Route("/v1/voices", voices.add_voice, methods=["POST"]),
    Route("/v1/voices/{voice_id}", voices.show_voice, methods=["GET"]),
    Route("/v1/voices/{voice_id}", voices.remove_voice, methods=["DELETE"]),
    Route("/v1/voices/{voice_id}/audio", voices.play_voice, methods=["GET"]),
    Route("/v1/tts", Tts(streamed=False), methods=["POST"]),
    Route("/v1/tts/stream", Tts(streamed=True), methods=["POST"]),
    Route("/v1/tokens", tokens.make_token, methods=["POST"]),
    Route("/drain", drain.start_drain, methods=["POST"]),
    Route("/openapi.json", openapi.openapi, methods=["GET"]),
)
METRICS_ROUTE = Route("/metrics", health.metrics, methods=["GET"])


class App:
    """An ASGI application; `services` is what it is made of."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._speak = SpeakEndpoint(services)
        self._http = _starlette(services, self._speak)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == "/v1/speak":
            await self._speak(scope, receive, send)
        else:
            await self._http(scope, receive, send)


def create_app(settings: Settings, *, probe: bool = True) -> App:
    """Reads files, so not on a loop. `probe`: see make_dispatcher. Raises BadSettings."""
    return App(Services.of(settings, probe=probe))


def _starlette(services: Services, speak: SpeakEndpoint) -> Starlette:
    settings = services.settings
    routes = [*API_ROUTES, Route("/v1/speak", speak, methods=["GET"])]
    if settings.metrics:
        routes.append(METRICS_ROUTE)
    if settings.page:
        routes += page_routes()
    cors = Middleware(
        CORSMiddleware,
        allow_origins=sorted(services.origins.allowed),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["authorization", "content-type"],
        expose_headers=[*AUDIO_HEADERS, "retry-after"],
        max_age=600,
    )
    app = Starlette(
        routes=routes,
        middleware=[cors] if settings.origins else [],
        exception_handlers={
            **dict.fromkeys((Problem, Refusal, *TABLE), respond),
            Exception: respond,
            HTTPException: _starlette_error,
        },
        lifespan=_lifespan,
    )
    # Its redirects lead to whatever Host says.
    app.router.redirect_slashes = False
    app.state.services = services
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    services: Services = app.state.services
    async with services.dispatcher, services.cache, anyio.create_task_group() as tasks:
        tasks.start_soon(
            services.readiness.warm_up, services.dispatcher, services.catalogue.default_engine, services.log
        )
        tasks.start_soon(services.learn_voices)
        tasks.start_soon(watch_lag, services.metrics.loop_lag)
        yield
        tasks.cancel_scope.cancel()


_STARLETTE_CODES = {404: "not_found", 405: "method_not_allowed"}


async def _starlette_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    code = _STARLETTE_CODES.get(error.status_code, "bad_message")
    response = Problem(error.status_code, code, error.detail).response()
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """Of every route to this path; Starlette itself names those of the first."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return {
        method
        for route in routes
        if route.path_regex.match(request.url.path)
        for method in route.methods or ()
    }
