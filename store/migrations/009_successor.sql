-- The binding whose rights a binding got when it was created as its successor, '' if it is nobody's. It may be gone.
ALTER TABLE binding ADD COLUMN predecessor text NOT NULL DEFAULT '';
