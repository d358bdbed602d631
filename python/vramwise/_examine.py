"""_examine.py FILE [CARD] - the doctor in a process of its own.

Run by vramwise.torch.doctor() as `python -I -S`, without anything of the environment's: prints one
JSON object with "report", "text" and "short", or with "error".
"""
import json
import os
import sys


def main() -> int:
    """Examines the file that the command line names."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from vramwise import _diagnosis, _library
    try:
        card = sys.argv[2] if len(sys.argv) > 2 else None
        found = _diagnosis.examined(sys.argv[1], _diagnosis.options(card, None), "this process")
        answer = {"report": found.to_dict(), "text": found.text, "short": found.short}
    except (_library.VramwiseError, ValueError) as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
