"""Drives a headless Chromium over the pipe of its debugging protocol, with real mouse and key events."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time


def find_chromium():
    """Path of a Chromium; None if there is none."""
    return next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)


class Chromium:
    """One page in a browser of its own. WebGL is drawn in software, so that no GPU is needed."""

    def __init__(self, folder, width=1600, height=900):
        self.messages = []  # lines of the console, as (level, text)
        self.next_id = 0
        self.rest = b""
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()

        def take_descriptors():  # the protocol's are 3 and 4
            reading, writing = os.dup(from_us), os.dup(to_us)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [find_chromium(), "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
             "--remote-debugging-pipe", f"--window-size={width},{height}", f"--user-data-dir={folder}/profile",
             "about:blank"],
            pass_fds=(3, 4), preexec_fn=take_descriptors, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.session = None
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        os.close(self.to_browser)
        os.close(self.from_browser)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def open(self, url):
        self.call("Page.navigate", url=url)

    def call(self, method, limit_s=60, **parameters):
        """Result of a command of the protocol."""
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + limit_s
        while True:
            answer = self.receive(end, method)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, end, what):
        while b"\0" not in self.rest:
            if not select.select([self.from_browser], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser does not answer {what}")
            part = os.read(self.from_browser, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.rest += part
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, parameters):
        if method == "Runtime.consoleAPICalled":
            text = " ".join(str(each.get("value", each.get("description", ""))) for each in parameters["args"])
            self.messages.append((parameters["type"], text))
        if method == "Runtime.exceptionThrown":
            self.messages.append(("error", json.dumps(parameters["exceptionDetails"])[:2000]))
        if method == "Log.entryAdded":
            self.messages.append((parameters["entry"]["level"], parameters["entry"]["text"]))

    def errors(self):
        return [text for level, text in self.messages if level == "error"]

    def evaluate(self, expression, limit_s=60):
        result = self.call("Runtime.evaluate", limit_s, expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait_for(self, expression, limit_s=60):
        """The expression's value once it is true."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if value := self.evaluate(expression):
                return value
            if self.errors():
                raise RuntimeError("\n".join(self.errors()))
            time.sleep(0.05)
        raise TimeoutError(f"not true within {limit_s} s: {expression}")

    def frames(self, count=6):
        """Waits for that many frames."""
        self.evaluate(f"""new Promise(done => {{
            let left = {count};
            const next = () => --left < 0 ? done() : requestAnimationFrame(next);
            next(); }})""")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.frames(2)

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
            self.frames(3)

    def wheel(self, x, y, delta):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.frames(3)

    def key(self, key, ctrl=False, shift=False):
        """A key by its name in the browser: "f", "Home"."""
        modifiers = (2 if ctrl else 0) | (8 if shift else 0)
        text = {"text": key} if len(key) == 1 and not ctrl else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **text)
        self.frames(3)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)
        self.frames(2)

    def type(self, text):
        for letter in text:
            self.key(letter)

    def picture(self, path=None):
        """PNG of the page; written to `path` if that is given."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path:
            pathlib.Path(path).write_bytes(data)
        return data
