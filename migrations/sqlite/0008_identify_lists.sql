-- Tells the lists of this database from those of every other, whose revisions count from 1 as well.
ALTER TABLE users_summary ADD COLUMN lists_id TEXT NOT NULL DEFAULT '';

UPDATE users_summary SET lists_id = lower(hex(randomblob(6)));
