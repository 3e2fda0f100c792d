"""Lowering of SQL to a question: parse, bind, check, and turn it into measures."""
