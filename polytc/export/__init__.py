"""Programs and models as source text, with the host code that runs them: folders to ship, read and change."""
