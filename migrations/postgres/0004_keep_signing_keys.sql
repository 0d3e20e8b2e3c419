-- Random keys, created by the first process that finds them missing.
CREATE TABLE signing_keys (
  name text CONSTRAINT signing_keys_primary_key PRIMARY KEY,
  key bytea NOT NULL,
  CONSTRAINT signing_keys_length CHECK (length(key) = 32)
);
