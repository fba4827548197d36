"""A small server over standard input and output, for the tests of the stdio transport: revision 2026-07-28, one tool for
each thing that a server may do to its client. Only the standard library."""

import json
import os
import signal
import sys
import threading
import time

LOCK = threading.Lock()
CANCELLED = []
SILENT = []
HELD = []


def raw(data):
    with LOCK:
        while data:
            data = data[os.write(1, data):]


def say(message):
    raw(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n")


def text(words):
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


def count(path):
    with open(path, "a+") as file:
        file.write("x")
        file.flush()
        file.seek(0)
        return len(file.read())


def noise(request):
    raw(b"hello, this is a banner\n\xc3\x28\n{\"jsonrpc\": \"a\x97b\"}\n\n   \n[1]\n")
    answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": text("through the noise")})
    raw(answer.encode() + b"\r\n")


def long(request):
    size = request["params"]["arguments"]["size"]
    shell = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": text("")}, ensure_ascii=False)
    head, tail = shell.split('"text": ""')
    fill = size - len(shell.encode())
    line = (head + '"text": "' + "é" * (fill // 2) + "x" * (fill % 2) + '"' + tail + "\n").encode()
    for at in range(0, len(line), 40961):
        raw(line[at:at + 40961])


def endless(request):
    raw(b'{"jsonrpc":')
    piece = b"a" * (1 << 20)
    for _ in range(request["params"]["arguments"]["mib"]):
        raw(piece)
    raw(b"\n")


def slow(request):
    """Answered when as many as asked for are there, the last one first."""
    HELD.append(request)
    if len(HELD) >= request["params"]["arguments"]["together"]:
        for held in reversed(HELD):
            say({"id": held["id"], "result": text(str(held["params"]["arguments"]["number"]))})
        HELD.clear()


def progress(request):
    token = request["params"]["_meta"].get("progressToken")
    note = lambda token, value: say({"method": "notifications/progress",
                                     "params": {"progressToken": token, "progress": value}})
    note("made up", 1)
    for value in range(1, 4):
        note(token, value)
    say({"id": request["id"], "result": text("done")})
    note(token, 4)


def call(request):
    arguments = request["params"]["arguments"]
    answer = lambda words: say({"id": request["id"], "result": text(words)})
    name = request["params"]["name"]
    if name == "echo":
        answer(arguments.get("text", ""))
    elif name == "about":
        about = {"args": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid(),
                 "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))}
        answer(json.dumps(about))
    elif name == "stderr":
        os.write(2, arguments["text"].encode())
        answer("said")
    elif name == "exit":
        count(arguments["counter"]) if "counter" in arguments else None
        os.write(2, b"a last word\n")
        os._exit(arguments["code"])
    elif name == "dressed":
        say({"id": str(request["id"]), "result": text("dressed")})
    elif name == "deaf":
        os.close(0)
        answer("deaf")
        time.sleep(60)
    elif name == "silent":
        SILENT.append(request["id"])
    elif name == "silenced":
        answer(str(len(SILENT)))
    elif name == "cancelled":
        answer(json.dumps(CANCELLED))
    else:
        {"noise": noise, "long": long, "endless": endless, "slow": slow, "progress": progress}[name](request)


def main():
    if "--die" in sys.argv:
        count(sys.argv[-1])
        os.write(2, b"no API key\n")
        os._exit(1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        method = request["method"]
        if method == "server/discover":
            say({"id": request["id"], "result": {
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "stdio", "version": "1"}}}})
        elif method == "tools/call":
            call(request)
        elif method == "tools/list":
            if "--lose-list" in sys.argv and count(sys.argv[-1]) == 1:
                os._exit(0)
            say({"id": request["id"], "result": {"resultType": "complete", "tools": []}})
        elif method == "notifications/cancelled":
            CANCELLED.append(request["params"]["requestId"])


main()
