-- Whether an import reached the end of its source; one that did not is not begun again by mistake.

ALTER TABLE imports ADD COLUMN is_finished INTEGER NOT NULL DEFAULT 0
  CONSTRAINT imports_is_finished CHECK (is_finished IN (0, 1));
