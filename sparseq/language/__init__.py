"""The language of questions: types, functions, and what is public of an expression."""
