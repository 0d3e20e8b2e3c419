-- Users written by a service whose rules of words are older than those of the index. One with newer rules adds their words.
CREATE TABLE users_without_words (
  id INTEGER CONSTRAINT users_without_words_primary_key PRIMARY KEY
) STRICT;
