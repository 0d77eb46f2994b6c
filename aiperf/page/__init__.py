"""Pages: values of sections, tables and figures (`section`), and their rendering as HTML (`html`) and for a terminal."""
