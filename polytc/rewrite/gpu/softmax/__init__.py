"""Softmax between two products in one kernel: `fusion` is the step, `chains` finds what a `chain` is, `shapes` weighs
`key_blocks`, `visible` says which keys rows see, `frame` and `streamed` write the statements."""
