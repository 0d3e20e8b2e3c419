-- An interrupted copy starts over, from whichever source.
ALTER TABLE unfinished_copies DROP COLUMN source_hash;
