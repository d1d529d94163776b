"""A client of `accams serve` that needs nothing but Python: recommend, explain, and send feedback."""

import json
import sys
import urllib.request


def ask(path: str, **request: object) -> dict:
    """Send a request to the service and return its answer."""
    headers = {"Content-Type": "application/json"}  # with --token-file, also {"Authorization": "Bearer ..."}
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/{path}", body, headers)) as answer:
        return json.load(answer)


URL = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000"
for line in ask("recommend", rated={"260": 5, "1196": 4}, n=5, interval=0.8)["items"]:
    print(f"{line['rank']}. {line['title']}: {line['prediction']:.1f} ({line['low']:.1f} to {line['high']:.1f})")
print(ask("feedback", events=[{"user": 17, "item": 260, "value": 5}]))
