"""What another distribution can add to polytc: see target.py, operators.py and steps.py."""
