"""A stand-in for `vllm serve` in a process of its own: it answers, fails and beats on command.

    python engine_of_paper.py FOLDER --host H --port P

`FOLDER/faults` lists one word for each start, in order: none, dies, hangs, naps (it answers after a
second), streams, trickles (a stream without end), halves (an answer that breaks off), errs (500 in
good health), sickens (500, and it ends), refuses (its golden answers do not match), declines (they
are of something else), accuses (its shadow finds somebody guilty), loads (it never listens).
"""

import os
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder, port = Path(sys.argv[1]), int(sys.argv[sys.argv.index("--port") + 1])
starts = folder / "starts"
number = len(starts.read_text().splitlines()) if starts.exists() else 0
with starts.open("a") as file:
    file.write("started\n")
faults = (folder / "faults").read_text().split()
fault = faults[number] if number < len(faults) else "none"
state = Path(os.environ["JUMAR_VLLM_STATE"])
if fault == "refuses":
    (state / "golden-failed.txt").write_text("alone, short: tokens.0: '1 2', not '1 3'")
    sys.exit(1)
if fault == "declines":
    (state / "golden-refused.txt").write_text("The golden answers are of embeddings.")
    sys.exit(1)
if fault == "loads":
    time.sleep(600)
count = 0
sick = False


def beat() -> None:
    global count
    count += 1
    (state / "beats.0").write_bytes(struct.pack("<Q", count))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(503 if sick else 200, b"ok")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        beat()
        if fault == "accuses":
            (state / "guilty").mkdir()
            (folder / "evidence.json").rename(state / "guilty" / "evidence.json")
        if fault in ("dies", "accuses"):
            os.abort()
        if fault == "hangs":
            time.sleep(600)
        if fault == "naps":
            time.sleep(1)
        if fault in ("errs", "sickens"):
            global sick
            sick = fault == "sickens"
            self.answer(500, b'{"error": {"message": "It cannot be."}}')
            if sick:
                threading.Timer(1.0, os.abort).start()
            return
        if fault == "halves":
            self.send_response(200)
            self.send_header("content-length", "100")
            self.end_headers()
            self.wfile.write(b'{"start": ')
            self.wfile.flush()
            os.abort()
        if fault in ("streams", "trickles"):
            self.stream()
        for _ in range(3):
            time.sleep(0.05)
            beat()
        self.answer(200, b'{"start": %d, "body": %s}' % (number, body))

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while fault == "trickles":
            self.wfile.write(b"9\r\ndata: 1\n\n\r\n")
            self.wfile.flush()
            time.sleep(0.05)
        self.wfile.write(b'19\r\ndata: 1\n\ndata: {"choices"\r\n')
        self.wfile.flush()
        os.abort()

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
