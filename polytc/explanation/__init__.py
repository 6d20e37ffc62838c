"""Why the code is as it is: what was decided, what forbade the rest, what the program costs; as text and as one HTML file."""

from polytc.explanation.explain import Explanation, explain

__all__ = ["Explanation", "explain"]
