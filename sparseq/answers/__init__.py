"""An answer, and all of its presentations: text, table, figure, page, workbook, CSV."""
