"""The door: parses, calls, prints. Results go to stdout, talk to stderr; a user's mistake is one line and exit 2.

Commands are named here as import strings, so that ``supclap --help`` loads none of them.
"""

from __future__ import annotations

import errno
import io
import os
import sys

from supclap import __version__
from supclap.schema import UserError

# name -> (module:function, what --help says). A command that does not exist yet is not listed.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("supclap.cli.demo:demo", "Train baseline, controls and SupCLAP on embedded sounds; answer typed queries."),
    "train": ("supclap.cli.train:train", "Train on a table, a folder of sounds or a corpus; resume a run."),
    "report": ("supclap.cli.report:report", "One self-contained HTML page about a run."),
    "search": ("supclap.cli.search:search", "The sounds of a folder that answer a question, or sound like an example."),
    "classify": ("supclap.cli.classify:classify", "Label sounds by names; the table can be corrected and trained on."),
    "calibrate": ("supclap.cli.calibrate:calibrate", "Teach a model when to say that nothing here matches."),
    "embed": ("supclap.cli.embed:embed", "A model over a table: a folder of embeddings, resumable."),
    "bench": ("supclap.cli.bench:bench", "How fast this machine does what we hold ourselves to, beside others."),
    "doctor": ("supclap.cli.doctor:doctor", "What this machine can run, and the line that installs what is missing."),
    "score": ("supclap.cli.score:score", "Any model's embeddings or similarity matrix, by a named protocol."),
    "evaluate": ("supclap.cli.evaluate:evaluate", "A model on a table: retrieval, classification, probes, queries."),
    "corpus list": ("supclap.cli.corpus:list_corpora", "The corpora known by name, with licences and layouts."),
    "corpus prepare": ("supclap.cli.corpus:prepare", "A corpus as its owners ship it: its table, and FLAC on request."),
    "corpus check": ("supclap.cli.corpus:check", "What a table, folder or corpus holds, and what is wrong with it."),
    "corpus compose": ("supclap.cli.compose:compose", "Scenes of synthesised sounds, or of the recordings of a bank."),
    "models list": ("supclap.cli.models:list_models", "Every name of published weights: size, licence, here or not."),
    "models fetch": ("supclap.cli.models:fetch", "Download weights by name into the cache folder."),
    "models add": ("supclap.cli.models:add", "Put a file that you have under its name, after checking its hash."),
}


def main(argv: list[str] | None = None) -> None:
    """Run one command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A file's name may be no text, and a terminal may not know a letter: neither ends an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run one command line; the exit status: 0, 1 for a failed check, 2 for a user's mistake, 130 for Ctrl-C."""
    from supclap.cli.app import build, needs

    try:
        result = build(COMMANDS, __version__)(argv, exit_on_error=False, print_error=False)
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
    except OSError as error:
        # A folder that cannot be written, a file where a folder is wanted, a full disk. What names no file is ours.
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"supclap: {_of_the_system(error)}", file=sys.stderr)
        return 2
    return result if isinstance(result, int) else 0


def _of_the_system(error: OSError) -> str:
    """One line about a file that the system refused."""
    place = "" if error.filename is None else f"{error.filename}: "
    said = (error.strerror or type(error).__name__).lower()
    return f"{place}{said}; give another place, or make this one readable and writable"
