"""What every part may use: errors, texts, files that appear whole, checks of arguments."""
