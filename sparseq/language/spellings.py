"""Spellings of operators, functions and types: sqlglot's names beside ours."""

from __future__ import annotations

from sqlglot import exp

CASTS = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER",
    "BIGINT": "BIGINT", "UTINYINT": "UTINYINT", "USMALLINT": "USMALLINT", "UINT": "UINTEGER",
    "UBIGINT": "UBIGINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "TEXT": "VARCHAR",
    "VARCHAR": "VARCHAR", "DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP", "UUID": "UUID",
}  # fmt: skip
"""Types to cast to: sqlglot's names, and DuckDB's."""
BINARY: dict[type, str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
    exp.And: "and", exp.Or: "or", exp.Pow: "pow",
    exp.StartsWith: "starts_with", exp.EndsWith: "ends_with", exp.Contains: "contains",
    exp.Left: "left", exp.Right: "right", exp.Levenshtein: "levenshtein",
}  # fmt: skip
UNARY: dict[type, str] = {
    exp.Neg: "neg", exp.Not: "not", exp.Abs: "abs", exp.Sign: "sign", exp.Floor: "floor",
    exp.Ceil: "ceil", exp.Sqrt: "sqrt", exp.Ln: "ln", exp.Exp: "exp", exp.IsNan: "isnan",
    exp.IsInf: "isinf", exp.Lower: "lower", exp.Upper: "upper", exp.Length: "length",
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day",
    exp.Quarter: "quarter", exp.Week: "week", exp.WeekOfYear: "week", exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow", exp.DayOfYear: "doy", exp.Hour: "hour", exp.Minute: "minute",
    exp.Second: "second", exp.LastDay: "last_day", exp.Dayname: "dayname",
    exp.Monthname: "monthname", exp.Reverse: "reverse", exp.MD5: "md5", exp.Ascii: "ascii",
    exp.TimeToUnix: "epoch",
}  # fmt: skip
NAMED = {
    "isodow": "isodow",
    "isfinite": "isfinite",
    "weekday": "dow",
    "json_valid": "json_valid",
    "json_array_length": "json_array_length",
    "json_exists": "json_exists",
}
LISTED: dict[type, tuple[str, tuple[str, ...]]] = {
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.JSONExtractScalar: ("json_extract_string", ("this", "expression")),
    exp.JSONExtract: ("json_extract", ("this", "expression")),
    exp.JSONType: ("json_type", ("this", "expression")),
}
"""Functions with arguments that sqlglot has names for."""
COMPARED: dict[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
PARTS = {"DAYOFWEEK": "dow", "DAYOFYEAR": "doy", "WEEKOFYEAR": "week", "WEEKDAY": "dow"}
