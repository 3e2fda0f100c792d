"""SQL becomes a question: parsed, bound, checked, and lowered to measures."""
