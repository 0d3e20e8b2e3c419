-- The clock by which bans end: offset_ms and the milliseconds since the machine started, for the start named boot_id (Linux). The first
-- process after a start writes it, and the others obey it, so that a clock that is set later shortens no ban.
CREATE TABLE ban_clock (
  singleton INTEGER CONSTRAINT ban_clock_primary_key PRIMARY KEY,
  boot_id TEXT NOT NULL,
  offset_ms INTEGER NOT NULL,
  CONSTRAINT ban_clock_singleton CHECK (singleton = 1)
) STRICT;
