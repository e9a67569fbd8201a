"""`python -m kina_conformance` is the command `kina-conformance`."""

import sys

from .cli import main

sys.exit(main())
