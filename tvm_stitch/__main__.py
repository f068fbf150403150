"""`python -m tvm_stitch`: see tvm_stitch.commands.cli."""

import sys

from tvm_stitch.commands.cli import main

sys.exit(main())
