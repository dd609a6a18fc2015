"""The door: parses, calls, prints. Results go to stdout, talk to stderr; a user's mistake is one line and exit 2.

Commands are named here as import strings, so that ``supclap --help`` loads none of them.
"""

from __future__ import annotations

import os
import sys

from supclap.schema import UserError

# name -> (module:function, what --help says). A command that does not exist yet is not listed.
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("supclap.cli.doctor:doctor", "What this machine can run, and the line that installs what is missing."),
}


def main(argv: list[str] | None = None) -> None:
    """Run one command line and exit."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run one command line; the exit status: 0, 1 for a failed check, 2 for a user's mistake, 130 for Ctrl-C."""
    from supclap.cli.app import build, needs

    try:
        result = build(COMMANDS)(argv, exit_on_error=False, print_error=False)
    except UserError as error:
        print(f"supclap: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        line = needs(error)
        if line is None:
            raise
        print(f"supclap: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("supclap: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0
