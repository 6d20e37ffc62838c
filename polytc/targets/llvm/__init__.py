"""The CPU target: Loop AST to LLVM IR to machine code."""
