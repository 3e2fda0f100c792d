"""The expression language of questions: types, functions, and public facts about expressions."""
