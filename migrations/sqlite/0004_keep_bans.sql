-- Whom a rule of the limits keeps out, and until when: milliseconds since the epoch.
CREATE TABLE bans (
  rule TEXT NOT NULL,
  client_key TEXT NOT NULL,
  ends_at INTEGER NOT NULL,
  CONSTRAINT bans_primary_key PRIMARY KEY (rule, client_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX bans_by_end ON bans (ends_at);
