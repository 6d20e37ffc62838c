"""The grammars of the language, as data; installed as the package polytc.grammar."""
