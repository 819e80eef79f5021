"""An app that takes Stripe's webhooks with the official Python SDK, and says what the SDK said.

Usage: app.py, with STRIPE_WEBHOOK_SECRET set. Prints {"port": N}, then one JSON line a request.
Ends when its standard input does, so that it never outlives the test that started it.
"""

import hashlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stripe import StripeClient, Webhook, WebhookSignature

SECRET = os.environ["STRIPE_WEBHOOK_SECRET"]
# No call is made with it; the client needs one to exist.
CLIENT = StripeClient("sk_test_never_used")
PRINTING = threading.Lock()


def say(line):
    with PRINTING:
        print(json.dumps(line), flush=True)


def parser_for(body):
    """A real app has one address for each form of event; here one takes all, so the body decides."""
    try:
        event = json.loads(body)
    except ValueError:
        return "construct_event"
    if event.get("object") == "v2.core.event":
        return "parse_event_notification"
    if "detail" in event or "specversion" in event:
        return "unwrap"
    return "construct_event"


def parse(parser, body, signature):
    if parser == "parse_event_notification":
        return CLIENT.parse_event_notification(body, signature, SECRET)
    if parser == "construct_event":
        return Webhook.construct_event(body, signature, SECRET)
    # The SDK unwraps a cloud's envelope only in a call that checks nothing, so the check stands
    # before it; and `verify_header` alone would not look at the time.
    WebhookSignature.verify_header(body, signature, SECRET, Webhook.DEFAULT_TOLERANCE)
    return Webhook.construct_event_without_verification(body)


def text(value):
    if value is None or isinstance(value, (str, int, float)):
        return "null" if value is None else str(value)
    return "object"


def read_of(event):
    """What the SDK made of the fields that odd bodies are odd in."""
    thing = getattr(getattr(event, "data", None), "object", None)
    fields = {name: getattr(event, name, None) for name in ("api_version", "request")}
    fields |= {name: getattr(thing, name, None) for name in ("name", "huge", "distance")}
    return {name: text(value) for name, value in fields.items()}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parser = parser_for(body)
        line = {
            "event": self.headers.get("Stripe-Guard-Event"),
            "attempt": self.headers.get("Stripe-Guard-Attempt"),
            "received_at": self.headers.get("Stripe-Guard-Received-At"),
            "sha256": hashlib.sha256(body).hexdigest(),
            "parser": parser,
        }
        try:
            event = parse(parser, body, self.headers.get("Stripe-Signature"))
            line |= {"verdict": "accepted", "id": event.id, "type": event.type, "read": read_of(event)}
        except Exception as refusal:  # Whatever the SDK throws is its answer.
            line |= {"verdict": "refused", "error": f"{type(refusal).__name__}: {refusal}"}
        say(line)
        self.send_response(200 if line["verdict"] == "accepted" else 400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
say({"port": server.server_address[1]})
sys.stdin.read()
