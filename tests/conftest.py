"""What holds for all tests."""

import os

# Some virtual processors announce matrix units that they do not have, and bfloat16 arithmetic dies of it. This has to
# be said before the first product is computed.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
