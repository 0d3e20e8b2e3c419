-- How long a ban was made for, in milliseconds: however the clock is set, no more is left of it. Of a ban that is
-- there already it is what is left now; one that an older release adds has none, and ends by the clock alone.
ALTER TABLE bans ADD COLUMN lasts_ms INTEGER;

UPDATE bans SET lasts_ms = max(0, ends_at - CAST(unixepoch('subsec') * 1000 AS INTEGER));
