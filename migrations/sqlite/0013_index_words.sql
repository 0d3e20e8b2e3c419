-- The beginnings of the words of each user, by the id of the user: an inverted index that holds no text to read back. The
-- service writes it, because SQLite knows neither letters nor accents. Small pages make it faster to go on at a place.
CREATE VIRTUAL TABLE users_words USING fts5(
  prefixes, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);

INSERT INTO users_words (users_words, rank) VALUES ('pgsz', 1000);

-- Which users are in it: all if indexed_through is null, else those with an id up to that. An index that another version of
-- the words made is built again.
CREATE TABLE users_words_state (
  singleton INTEGER CONSTRAINT users_words_state_primary_key PRIMARY KEY,
  words_version INTEGER NOT NULL,
  indexed_through INTEGER,
  CONSTRAINT users_words_state_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO users_words_state (singleton, words_version, indexed_through)
SELECT 1, 1, CASE WHEN EXISTS (SELECT 1 FROM users) THEN 0 END;
