"""Find a Chromium for the browser tests; install one where that is possible. `make browser` runs this.

In CI a missing browser is a failure; elsewhere one line says which tests will not run.
"""
import os
import shutil
import subprocess
import sys

FLAGS = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu"]


def find():
    """Path of an installed Chromium or Chrome, or None. The headless shell comes first: a page costs it half as much as a browser that could have windows."""
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
        return path if os.path.exists(path) else None
    except ImportError:
        return None


def launch(playwright, *flags):
    """Start the browser that `find` found. Root (containers, CI) needs --no-sandbox."""
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=find(), args=[*FLAGS, *flags, *sandbox])


def install():
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root and shutil.which("apt-get"):
        commands = [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium-headless-shell", "fonts-noto-cjk"]]
    else:
        commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    for command in commands:
        print("  " + " ".join(command), flush=True)
        if subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}).returncode:
            return


def main():
    if find() is None:
        print("Installing Chromium for the browser tests", flush=True)
        install()
    if find() is None:
        line = "No Chromium was found or could be installed: install chromium or run `.venv/bin/playwright install --with-deps chromium`."
        if os.environ.get("CI"):
            sys.exit(line)
        print(line + " The browser tests will not run.")


if __name__ == "__main__":
    main()
