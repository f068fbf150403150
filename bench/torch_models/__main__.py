"""`python -m bench.torch_models`: see bench.torch_models.cli."""

import sys

from bench.torch_models.cli import main

sys.exit(main())
