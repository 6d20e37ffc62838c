"""Machine code in this process: compiling and linking it, its threads, its memory, the routines that are native themselves."""
