"""A client of `accams serve` that needs nothing but Python: recommend, and send feedback.

TOKEN=... python client.py http://localhost:8000
"""

import json
import os
import sys
import urllib.error
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('TOKEN', '')}"}


def ask(path: str, **request: object) -> dict:
    """Send a request to the service and return its answer."""
    body = json.dumps(request).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/{path}", body, HEADERS)) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as problem:
        sys.exit(f"{path}: {json.load(problem)['detail']}")


for line in ask("recommend", rated={"260": 5, "1196": 4}, n=5, interval=0.8)["items"]:
    print(f"{line['rank']}. {line['title']}: {line['prediction']:.1f} ({line['low']:.1f} to {line['high']:.1f})")
print(ask("feedback", events=[{"user": 17, "item": 260, "value": 5}]))
