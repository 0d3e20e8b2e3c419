-- An index from which a user is deleted by its id: until now that took the words that it had. The service builds it again.
DROP TABLE users_words;

CREATE VIRTUAL TABLE users_words USING fts5(
  prefixes, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

UPDATE users_words_state SET words_version = 0, indexed_through = 0;
