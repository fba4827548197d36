"""Takes the examples out of README.md: `readme.py LANGUAGE` prints the one code block of that language that is marked
with an HTML comment `<!-- run -->` on the line before."""

import re
import sys
from pathlib import Path

text = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
blocks = re.findall(r"<!-- run -->\n```(\w+)\n(.*?)```", text, re.S)
found = [code for language, code in blocks if language == sys.argv[1]]
if len(found) != 1:
    sys.exit(f"expected one runnable {sys.argv[1]} example in README.md but found {len(found)}")
sys.stdout.write(found[0])
