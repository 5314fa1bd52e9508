"""The fault bench: real faults of operators on accelerators, injected into an emulated NPU.

make bench-faults                       # all rows
make bench-faults ROWS=5,6,9            # some
python -m benchmarks.faults --write     # also writes docs/fault-bench.md

A row (`rows.yaml`) is a fault that somebody met, in public, on a real accelerator. Its cases
inject that fault where it happened, let one tool of Jumar look for it, and say what came out. Each
case is also run without its fault: what the tool says then is a false alarm.
"""
