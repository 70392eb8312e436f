"""Chromium without a network, and a page in it."""

import base64
import os
import time
import unittest
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PAGES = os.environ["TAPEHEAD_PAGES"]  # the directory of the pages
PICTURES = os.environ.get("TAPEHEAD_PICTURES")  # a directory for screenshots, or nothing

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",  # root, in a container
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]

# Calls a function of the page, waits for the next frame, and returns how long both took in milliseconds.
TIMED = """
const done = arguments[arguments.length - 1], begin = performance.now();
%s;
const script = performance.now() - begin;
requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done([script, performance.now() - begin]);
    channel.port2.postMessage(0);
});
"""


def start():
    """Starts Chromium."""
    options = webdriver.ChromeOptions()
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("chromedriver"), options=options)
    driver.set_script_timeout(60)
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # a key may leave the page
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions",
                           {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})
    return driver


class PageTest(unittest.TestCase):
    """A test with a browser. After each test, the console must be empty."""

    @classmethod
    def setUpClass(cls):
        cls.driver = start()

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def tearDown(self):
        self.assertEqual(self.driver.get_log("browser"), [], "the console is not empty")
        self.window(1400, 1000)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})

    def open(self, name):
        """Opens a page from its file."""
        self.driver.get("file://" + quote(os.path.join(PAGES, name)))

    def run_script(self, script, *arguments):
        """Runs JavaScript and returns its result."""
        return self.driver.execute_script(script, *arguments)

    def time(self, script):
        """Returns two times in milliseconds: of a script, and of the script and the next frame."""
        return self.driver.execute_async_script(TIMED % script)

    def window(self, width, height):
        """Sets the size of the window."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def theme(self, name):
        """Sets the theme that the system prefers."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def find(self, selector):
        """Returns the first element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector):
        """Returns all elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def press(self, *keys):
        """Presses keys in the focused element."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def picture(self, name, last=None):
        """Writes a screenshot, if screenshots are wanted: of the window, or of its top with the element `last`."""
        time.sleep(0.3)  # heat maps draw when they come into view
        if not PICTURES:
            return
        clip = {}
        if last:
            width, bottom = self.run_script("const box = document.querySelector(arguments[0]).getBoundingClientRect();"
                                            "return [innerWidth, Math.ceil(box.bottom) + 12]", last)
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": bottom, "scale": 1}}
        png = self.driver.execute_cdp_cmd("Page.captureScreenshot", clip)["data"]
        with open(os.path.join(PICTURES, name + ".png"), "wb") as file:
            file.write(base64.b64decode(png))


def pages():
    """Returns the names of all pages."""
    return sorted(name for name in os.listdir(PAGES) if name.endswith(".html"))


__all__ = ["By", "Keys", "PageTest", "pages", "PAGES"]
