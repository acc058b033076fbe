"""What the documentation's site is made with besides its pages: reference pages from the code, figures, a notebook."""
