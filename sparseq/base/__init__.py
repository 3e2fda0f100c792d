"""Basic parts that every folder uses: errors, texts, atomic files, checks of arguments."""
