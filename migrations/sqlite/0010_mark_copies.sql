-- The mark of a copy from another database that is not complete. source_hash identifies the source, so that the same copy
-- can go on. A database with this mark is not used for anything else.
CREATE TABLE unfinished_copies (
  singleton INTEGER CONSTRAINT unfinished_copies_primary_key PRIMARY KEY,
  source_hash TEXT NOT NULL,
  CONSTRAINT unfinished_copies_singleton CHECK (singleton = 1)
) STRICT;
