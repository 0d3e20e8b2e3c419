-- Which clients a rule of the limits denies, and until when, in milliseconds since the epoch. lasts_ms is the length of
-- the ban when it was made: even if the clock is set back, no more than that is left of it.
-- PostgreSQL stores no NUL characters, so in rule and client_key a NUL is \0 and a backslash is \\.
CREATE TABLE bans (
  rule text COLLATE "C" NOT NULL,
  client_key text COLLATE "C" NOT NULL,
  ends_at bigint NOT NULL,
  lasts_ms bigint NOT NULL,
  CONSTRAINT bans_primary_key PRIMARY KEY (rule, client_key)
);

CREATE INDEX bans_by_end ON bans (ends_at, rule, client_key);
