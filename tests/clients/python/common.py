"""What all the Python clients share: where the server is, and how a finding is compared."""

import importlib.metadata
import sys
import urllib.parse

URL = sys.argv[1]
PARTS = urllib.parse.urlsplit(URL)
HOST, PORT = PARTS.hostname, PARTS.port
DATABASE, USER = PARTS.path.lstrip("/"), PARTS.username


def expect(found, wanted):
    """Fails, telling both, unless they are equal."""
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def fails(sqlstate, action, state_of):
    """Fails unless the action raises an error of that SQLSTATE."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - drivers have no error in common
        if state_of(error) != sqlstate:
            raise
        return
    raise AssertionError(f"there should have been an error {sqlstate}")


def version(package):
    """Tells `run` which version was driven."""
    print("version", importlib.metadata.version(package), flush=True)
