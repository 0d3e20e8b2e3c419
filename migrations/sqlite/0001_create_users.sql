-- Ids come from AUTOINCREMENT, so that the id of a deleted user is never given out again.
-- Times are text such as 2026-01-31T12:00:00.000Z: they sort as they stand and need no formatting to be shown.
-- updated_at is later with every change of the row, and so tells one version of a user from another.
-- name_lower is kept by the service, because lower() of SQLite knows ASCII only; addresses are ASCII.
CREATE TABLE users (
  id INTEGER CONSTRAINT users_primary_key PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  name_lower TEXT NOT NULL,
  email TEXT NOT NULL,
  password_digest TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  CONSTRAINT users_name_chars CHECK (length(name) BETWEEN 1 AND 255),
  CONSTRAINT users_email_chars CHECK (length(email) BETWEEN 1 AND 254),
  CONSTRAINT users_password_digest_phc CHECK (password_digest LIKE '$%'),
  CONSTRAINT users_times CHECK (length(created_at) = 24 AND length(updated_at) = 24)
) STRICT;

CREATE UNIQUE INDEX users_email_unique ON users (lower(email));
