"""One FastAPI app that answers at once: bare, or with asgi-idempotency-header on Redis.

    python app.py bare|asgi-idempotency-header redis://127.0.0.1:6379
"""

import asyncio
import os
import socket
import sys
import threading

import uvicorn
from fastapi import FastAPI, Request, Response
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends.redis import RedisBackend
from redis.asyncio import Redis

BODY_BYTES = 300
SLOW_SECONDS = 1.0
HEAD, TAIL = b'{"id":"ord_1","status":"created","note":"', b'"}'
REPLY = HEAD + b"n" * (BODY_BYTES - len(HEAD) - len(TAIL)) + TAIL
EVERY_BYTE = bytes(range(256))

app = FastAPI()
executions = 0


async def execute(request: Request) -> None:
    global executions
    await request.body()
    executions += 1


def created(body: bytes = REPLY, media_type: str = "application/json") -> Response:
    return Response(body, 201, media_type=media_type)


@app.get("/count")
async def count() -> Response:
    return Response(str(executions), media_type="text/plain")


@app.post("/v1/orders")
async def order(request: Request) -> Response:
    await execute(request)
    return created()


@app.post("/v1/slow")
async def slow(request: Request) -> Response:
    await execute(request)
    await asyncio.sleep(SLOW_SECONDS)
    return created()


@app.post("/v1/bytes")
async def every_byte(request: Request) -> Response:
    await execute(request)
    return created(EVERY_BYTE, "application/octet-stream")


@app.post("/v1/headers")
async def headers(request: Request) -> Response:
    await execute(request)
    response = created()
    response.headers.append("link", '</v1/orders/1>; rel="self"')
    response.headers.append("link", '</v1/orders>; rel="up"')
    response.headers.append("set-cookie", "a=1; Path=/")
    response.headers.append("set-cookie", "b=2; Path=/")
    return response


def end_with_standard_input() -> None:
    """The process that started this one holds the other end."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    layer, redis = sys.argv[1:]
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    if layer == "asgi-idempotency-header":
        # More connections than the load generator has: without it the client refuses the 101st.
        backend = RedisBackend(redis=Redis.from_url(redis, max_connections=1_024))
        app.add_middleware(IdempotencyHeaderMiddleware, backend=backend)
    elif layer != "bare":
        sys.exit(f"no such layer: {layer}")
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    address, port = listener.getsockname()
    print(f"app listening on {address}:{port}", flush=True)
    # Connections are kept for as long as the load generator wants.
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=600)
    uvicorn.Server(config).run(sockets=[listener])


main()
