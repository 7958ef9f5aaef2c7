"""Arguments: what is told of the place as JSON, the file for the answers, which to try."""

import sys

from . import main

main(sys.argv[1:])
