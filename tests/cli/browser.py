"""A headless Chromium, driven by its debugging protocol over two pipes; needs no other package."""

import base64
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Seconds to wait for an answer on a machine with other load.
PATIENCE = 120


class Browser:
    """A page in a browser. `messages` are its errors and everything written to its console."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._buffer, self._number = write, read, b"", 0
        self._session: str | None = None
        self.messages: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        found = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, width: int = 1000, *, dark: bool = False, medium: str = "") -> None:
        """Open a file in a window of this width."""
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=medium, features=[scheme])
        self.messages.clear()
        self._call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + PATIENCE
        while self.run("document.readyState") != "complete" and time.monotonic() < end:
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        where = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{where}.scrollIntoView({{block: 'center'}})")
        box = "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
        x, y = self.run(f"{box}({where}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            mouse = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self._call("Input.dispatchMouseEvent", **mouse)

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        options = {"captureBeyondViewport": True, "format": "png"}
        found = self._call("Page.captureScreenshot", **options)
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            if answer["method"] == "Runtime.consoleAPICalled":
                self.messages.append(str(answer["params"]["args"]))
            if answer["method"] == "Runtime.exceptionThrown":
                self.messages.append(str(answer["params"]["exceptionDetails"]))
            if answer["method"] == "Log.entryAdded":
                self.messages.append(answer["params"]["entry"]["text"])

    def _receive(self) -> Any:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 2**16)
            assert part, "the browser ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it; skip the test if there is no browser."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        if os.environ.get("JAXFS_REQUIRE_BROWSER"):
            pytest.fail(f"JAXFS_REQUIRE_BROWSER is set and none of {BROWSERS} is on the PATH")
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]  # fmt: skip
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    # The browser reads from descriptor 3 and writes to descriptor 4.
    command = f"exec {shlex.join([program, *options])} 3<&{read_in} 4>&{write_out}"
    process = subprocess.Popen(
        ["bash", "-c", command], pass_fds=(read_in, write_out), stderr=subprocess.DEVNULL
    )
    os.close(read_in)
    os.close(write_out)
    try:
        yield Browser(write_in, read_out)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(write_in)
        os.close(read_out)
