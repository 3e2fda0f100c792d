"""Plans of questions, and the catalogue; both are shared by lowering, engines and answers."""
