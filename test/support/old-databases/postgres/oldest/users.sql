

SELECT pg_catalog.set_config('search_path', '', false);

CREATE FUNCTION public.forget_answers_of_deleted_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
  UPDATE idempotency_keys SET fingerprint = NULL, user_version = NULL, user_json = NULL
  FROM deleted WHERE user_id = deleted.id;
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_ban_changes() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  this_writer text := coalesce(current_setting('user_records.writer', true), '');
  new_mark bigint := floor(random() * 281474976710656);
BEGIN
  UPDATE ban_changes SET mark = new_mark, changed_at = now() WHERE writer = this_writer;
  IF FOUND THEN RETURN; END IF;
  DELETE FROM ban_changes WHERE writer IN (
    SELECT writer FROM ban_changes WHERE changed_at < now() - interval '1 day' FOR UPDATE SKIP LOCKED);
  INSERT INTO ban_changes (writer, mark, changed_at) VALUES (this_writer, new_mark, now())
  ON CONFLICT (writer) DO UPDATE SET mark = EXCLUDED.mark, changed_at = EXCLUDED.changed_at;
END $$;

CREATE FUNCTION public.note_deleted_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM deleted);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(-rows, rows); END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_inserted_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM inserted);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(rows, rows); END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_truncated_bans() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
  PERFORM note_ban_changes();
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_truncated_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
  PERFORM note_user_changes(-coalesce(sum(user_count), 0)::bigint, 1) FROM users_summary;
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_updated_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM updated);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(0, rows); END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_user_changes(added bigint, changed bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  free_slot bigint;
  new_mark bigint := floor(random() * 281474976710656);
BEGIN
  SELECT slot INTO free_slot FROM users_summary LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
  IF free_slot IS NULL THEN
    INSERT INTO users_summary (user_count, revision, mark) VALUES (added, changed, new_mark);
  ELSE
    UPDATE users_summary SET user_count = user_count + added, revision = revision + changed, mark = new_mark
    WHERE slot = free_slot;
  END IF;
END $$;

CREATE FUNCTION public.note_written_bans() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
  IF EXISTS (SELECT FROM written) THEN PERFORM note_ban_changes(); END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION public.take_user_ids(wanted_ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  taken bigint[] := '{}';
  wanted bigint;
  last_id bigint;
BEGIN
  IF NOT has_table_privilege(session_user, 'users', 'INSERT') THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for table users';
  END IF;
  FOREACH wanted IN ARRAY wanted_ids LOOP
    IF wanted IS NULL THEN
      wanted := nextval('users_id_seq');
    ELSE
      SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END INTO last_id FROM users_id_seq;
      IF wanted - last_id > 10000 THEN
        PERFORM pg_advisory_xact_lock('users_id_seq'::regclass::oid::bigint);
        SELECT last_value INTO last_id FROM users_id_seq;
        -- Meanwhile nobody takes this many ids, so setval cannot take the sequence back.
        IF wanted - last_id > 10000 THEN last_id := setval('users_id_seq', wanted); END IF;
      END IF;
      WHILE last_id < wanted LOOP last_id := nextval('users_id_seq'); END LOOP;
    END IF;
    taken := taken || wanted;
  END LOOP;
  RETURN taken;
END $$;

CREATE TABLE public.ban_changes (
    writer text NOT NULL COLLATE pg_catalog."C",
    mark bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL
);

CREATE TABLE public.bans (
    key_hash bytea NOT NULL,
    rule text NOT NULL COLLATE pg_catalog."C",
    client_key text NOT NULL COLLATE pg_catalog."C",
    ends_at bigint NOT NULL,
    lasts_ms bigint NOT NULL,
    CONSTRAINT bans_key_hash CHECK ((length(key_hash) = 32))
);

CREATE TABLE public.idempotency_keys (
    key_hash bytea NOT NULL,
    user_id bigint NOT NULL,
    fingerprint text,
    user_version text,
    user_json text,
    expires_at bigint NOT NULL,
    CONSTRAINT idempotency_keys_hash CHECK ((length(key_hash) = 32))
);

CREATE TABLE public.imports (
    source text NOT NULL,
    record_count bigint NOT NULL,
    records_hash bytea NOT NULL,
    rejects_bytes bigint NOT NULL,
    created_count bigint NOT NULL,
    updated_count bigint NOT NULL,
    unchanged_count bigint NOT NULL,
    skipped_count bigint NOT NULL,
    refused_count bigint NOT NULL,
    is_finished boolean DEFAULT false NOT NULL,
    updated_at text NOT NULL,
    CONSTRAINT imports_records_hash CHECK ((length(records_hash) = 32))
);

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    hash text NOT NULL,
    applied_at text NOT NULL
);

CREATE TABLE public.signing_keys (
    name text NOT NULL,
    key bytea NOT NULL,
    CONSTRAINT signing_keys_length CHECK ((length(key) = 32))
);

CREATE TABLE public.unfinished_copies (
    singleton smallint NOT NULL,
    source_hash text NOT NULL,
    CONSTRAINT unfinished_copies_singleton CHECK ((singleton = 1))
);

CREATE TABLE public.users (
    id bigint NOT NULL,
    name text NOT NULL,
    name_lower text NOT NULL COLLATE pg_catalog."C",
    email text NOT NULL,
    email_lower text GENERATED ALWAYS AS (lower((email COLLATE "C"))) STORED NOT NULL COLLATE pg_catalog."C",
    password_digest text,
    created_at text NOT NULL COLLATE pg_catalog."C",
    updated_at text NOT NULL COLLATE pg_catalog."C",
    shown text GENERATED ALWAYS AS (((((((((',"name":"'::text || replace(replace(name, '\'::text, '\\'::text), '"'::text, '\"'::text)) || '","email":"'::text) || replace(replace(email, '\'::text, '\\'::text), '"'::text, '\"'::text)) || '","created_at":"'::text) || created_at) || '","updated_at":"'::text) || updated_at) || '"}'::text)) STORED NOT NULL,
    CONSTRAINT users_email_chars CHECK (((length(email) >= 1) AND (length(email) <= 254))),
    CONSTRAINT users_id_positive CHECK (((id >= 1) AND (id <= '9007199254740991'::bigint))),
    CONSTRAINT users_name_chars CHECK (((length(name) >= 1) AND (length(name) <= 255))),
    CONSTRAINT users_password_digest_phc CHECK ((password_digest ~~ '$%'::text)),
    CONSTRAINT users_times CHECK (((length(created_at) = 24) AND (length(updated_at) = 24)))
);

ALTER TABLE public.users ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1
);

CREATE TABLE public.users_summary (
    slot bigint NOT NULL,
    user_count bigint NOT NULL,
    revision bigint NOT NULL,
    mark bigint NOT NULL
)
WITH (fillfactor='10', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

ALTER TABLE public.users_summary ALTER COLUMN slot ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.users_summary_slot_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

INSERT INTO public.ban_changes VALUES ('cb11e05a-cb0e-4c95-8858-f7826e61973b', 140201139106308, '2026-11-22 19:15:03.620097+00');
INSERT INTO public.ban_changes VALUES ('a146207c-39c1-4a0b-98a5-0b3057b1401c', 93880706333204, '2026-11-22 19:15:04.233293+00');

INSERT INTO public.bans VALUES ('\xdb6b74c105d03b3280216698079365e0155eae997e463bf45712e437f2fe223c', 'x-client', 'mallory', 1795461303547, 86400000);
INSERT INTO public.bans VALUES ('\x9dbb17a50f4d6b7f0d248cb555e161a6c913d9cefc76d14d25c06c949c90da5a', 'x-client', 'dMEIOgm-Dn9n24qZeZ5E_cwHFP5mTLkf8veS5ZUO5JI', 1795461303567, 86400000);
INSERT INTO public.bans VALUES ('\xdeea1ac53d7dd5006068426d88fd63133b4a77f1907049fa3c5a3f3997388ce3', 'authorization', 'Bearer of an older release', 1795461303578, 86400000);
INSERT INTO public.bans VALUES ('\x3d08f467605914b5b232cce079778a4f4d18bc1403883a453770518c2e118e7a', 'address', '2001:db8:0:100::/56', 1795461303619, 86400000);
INSERT INTO public.bans VALUES ('\x6c9d5b1bfef68ceca57b60fc8047e495aabccd3c2f3eac1e76f0c6c2175c4df0', 'address', '203.0.113.7', 1795461303594, 86400000);
INSERT INTO public.bans VALUES ('\x3d168e2096928fd657bcee6bbabe1fd8b051d44358fdff8737f0daef16f9d1ba', 'address', '198.51.100.9', 1795461304101, 86400000);

INSERT INTO public.idempotency_keys VALUES ('\x131b1a452de985794cc0742e012e3f4b47973721dfce93d6e42f39b888499f14', 39, '4a6222b0e6b605161a0ced9bf94ac475f08923d5eace1b9f69fa7615745964d4', '2026-11-22T19:15:03.255Z', '{"id":39,"name":"Keyed","email":"keyed@x.co","created_at":"2026-11-22T19:15:03.255Z","updated_at":"2026-11-22T19:15:03.255Z"}', 1795461303255);
INSERT INTO public.idempotency_keys VALUES ('\x0ba49d3720654f1841c300c2aaced297e57d36c661112e6851c80602b42525f7', 40, '$argon2id$v=19$m=19456,t=2,p=1$kWHu3/BinoK+1hyOQeEh5Q$YbkkZNNA1Nvyv4sEdJ4V9SMU703ZOE9wfQHg4enQZ0I', '2026-11-22T19:15:03.402Z', '{"id":40,"name":"Keyed 2","email":"secret@x.co","created_at":"2026-11-22T19:15:03.402Z","updated_at":"2026-11-22T19:15:03.402Z"}', 1795461303402);
INSERT INTO public.idempotency_keys VALUES ('\xf06bbbedd879bd4860062a97b6512763a2e6b18aef56461f81c8cf5cfd4a7707', 41, '$argon2id$v=19$m=19456,t=2,p=1$qJaMazVcZvDzbS2NrNAbcA$xCf41ghayIm/vJy7+3HNRIyYKKivW5hDXwzQUCdmdoM', '2026-11-22T19:15:03.454Z', '{"id":41,"name":"Keyed 3","email":"more@x.co","created_at":"2026-11-22T19:15:03.454Z","updated_at":"2026-11-22T19:15:03.454Z"}', 1795461303454);
INSERT INTO public.idempotency_keys VALUES ('\x2e501a8f6d33e810763a131a2e297fcffd276966b7df84207aaf753be09e62ee', 42, '9b5a3b71718e7ea2c5195d493a947217b9d4255fded56cfff21c6e5db5d931e2', '2026-11-22T19:15:03.479Z', '{"id":42,"name":"Keyed 4","email":"later@x.co","created_at":"2026-11-22T19:15:03.479Z","updated_at":"2026-11-22T19:15:03.479Z"}', 1795461303479);
INSERT INTO public.idempotency_keys VALUES ('\xb73f18fb3c938a1e9f3f9a0a7976ecfe1c68b7c24bebfcfdfc5c0d6b57e5fd2c', 43, NULL, NULL, NULL, 1795461303511);

INSERT INTO public.imports VALUES ('/tmp/old-databases-KbZdOV/finished.ndjson', 7, '\xf6f6b4d58d896e845adbb6b8e4bd982f9d3afb86f51a6216df4734f7787a85fb', 0, 7, 0, 0, 0, 0, true, '2026-11-22T19:15:04.683Z');
INSERT INTO public.imports VALUES ('-', 4, '\xaa88b6187ace4fe0190a64290d32a3f1fa927fd8fe3169e5489e534b9915c0c8', 115, 2, 0, 0, 0, 2, false, '2026-11-22T19:15:05.329Z');
INSERT INTO public.imports VALUES ('/tmp/old-databases-KbZdOV/conflict.csv', 3, '\x37d553270809e3c239300a5179e42707164b815ac1135154e538429b17dab9ae', 0, 2, 0, 0, 0, 1, false, '2026-11-22T19:15:05.799Z');

INSERT INTO public.schema_migrations VALUES (1, '0001_create_users', '77798d61925f144f1254429dfc436459b615f56f69e868d91b069913d54f1573', '2026-11-22T19:15:01.286Z');
INSERT INTO public.schema_migrations VALUES (2, '0002_keep_idempotency_keys', '32d8c49f401ed47d5a6ba53187016c780bb97c848aafef2896be62ff2df44d11', '2026-11-22T19:15:01.403Z');
INSERT INTO public.schema_migrations VALUES (3, '0003_keep_bans', 'cbaa2ef13e65455a59b105e876c4c5e9dd847467021f3e42c3dd1de20c130b25', '2026-11-22T19:15:01.449Z');
INSERT INTO public.schema_migrations VALUES (4, '0004_keep_signing_keys', '6321607b90791df65552d6db467114318c2d6b37bcf6fbc1a931dc1a66f8bc34', '2026-11-22T19:15:01.533Z');
INSERT INTO public.schema_migrations VALUES (5, '0005_keep_imports', 'fc8f78ea021a1587568b87fa2f25ab5535ca7ac8a811c629b3d3117f9a50eb05', '2026-11-22T19:15:01.551Z');
INSERT INTO public.schema_migrations VALUES (6, '0006_mark_copies', '22fa46b596c01ad350061aadcba95364a8d7e1b9d73750cf7d31bbdb286eff4e', '2026-11-22T19:15:01.576Z');

INSERT INTO public.signing_keys VALUES ('cursor', '\xca6b1b5d45d2080d299ec71f440770b790a07ef77074d300685bae76f672225c');

INSERT INTO public.users VALUES (1, 'Ada Lovelace', 'ada lovelace', 'User0@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$IdZBFIVzmI5U+uppM63Omg$SmsQkAr653iISFvhK1VmMH2znX6KOQh3orFfLdSRf2w', '2026-11-22T19:15:01.791Z', '2026-11-22T19:15:01.791Z', DEFAULT);
INSERT INTO public.users VALUES (4, '王小明', '王小明', 'User3@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$5P5bZrZ4LPzE8InAEhTBlg$hgWVGUV5Sfk19a5IlWMVArzS0kymPllWo7Ynn5yQyN8', '2026-11-22T19:15:01.868Z', '2026-11-22T19:15:01.868Z', DEFAULT);
INSERT INTO public.users VALUES (5, '김철수', '김철수', 'User4@Example.com', DEFAULT, NULL, '2026-11-22T19:15:01.878Z', '2026-11-22T19:15:01.878Z', DEFAULT);
INSERT INTO public.users VALUES (6, 'ΜΑΡΊΑ ΠΑΠΑΔΟΠΟΎΛΟΥ', 'μαρία παπαδοπούλου', 'User5@Example.com', DEFAULT, NULL, '2026-11-22T19:15:01.911Z', '2026-11-22T19:15:01.911Z', DEFAULT);
INSERT INTO public.users VALUES (7, 'µtorrent', 'μtorrent', 'User6@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$9JAUOedRcvQahXrTciPJlg$IXV0ftmHsh1j8nh4G1LarZUmAV2nChoxhs1ON11CCzk', '2026-11-22T19:15:01.959Z', '2026-11-22T19:15:01.959Z', DEFAULT);
INSERT INTO public.users VALUES (8, 'ſam Gamgee', 'sam gamgee', 'User7@Example.com', DEFAULT, NULL, '2026-11-22T19:15:01.965Z', '2026-11-22T19:15:01.965Z', DEFAULT);
INSERT INTO public.users VALUES (9, 'Дмитрий Менделеев', 'дмитрий менделеев', 'User8@Example.com', DEFAULT, NULL, '2026-11-22T19:15:01.975Z', '2026-11-22T19:15:01.975Z', DEFAULT);
INSERT INTO public.users VALUES (10, 'שָׁלוֹם עֲלֵיכֶם', 'שָׁלוֹם עֲלֵיכֶם', 'User9@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$Gw8zERXfws2m+80x6M93hw$dNt3bfpKbFUHh7WDP6ZqmpP5ACawAIQD0wW93EbtXVo', '2026-11-22T19:15:02.014Z', '2026-11-22T19:15:02.014Z', DEFAULT);
INSERT INTO public.users VALUES (11, 'عَلِيّ', 'عَلِيّ', 'User10@Example.com', DEFAULT, NULL, '2026-11-22T19:15:02.024Z', '2026-11-22T19:15:02.024Z', DEFAULT);
INSERT INTO public.users VALUES (12, 'देवनागरी', 'देवनागरी', 'User11@Example.com', DEFAULT, NULL, '2026-11-22T19:15:02.043Z', '2026-11-22T19:15:02.043Z', DEFAULT);
INSERT INTO public.users VALUES (13, 'ガネーシャ', 'ガネーシャ', 'User12@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$/dwzHPNKT93VYxk0Z+QUVg$WzK1JwmqkibG1ugVP4i/JhUrGfIPQ9/gdnS1OC6OFhM', '2026-11-22T19:15:02.114Z', '2026-11-22T19:15:02.114Z', DEFAULT);
INSERT INTO public.users VALUES (14, 'O''Brien "Quote" \ Backslash', 'o''brien "quote" \ backslash', 'User13@Example.com', DEFAULT, NULL, '2026-11-22T19:15:02.132Z', '2026-11-22T19:15:02.132Z', DEFAULT);
INSERT INTO public.users VALUES (15, '𝒜𝓃𝓃 Fancy', '𝒜𝓃𝓃 fancy', 'User14@Example.com', DEFAULT, NULL, '2026-11-22T19:15:02.155Z', '2026-11-22T19:15:02.155Z', DEFAULT);
INSERT INTO public.users VALUES (16, 'İstanbul', 'i̇stanbul', 'User15@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$E1UCciCNF3IDh1yNLPh8Sg$KCAY1wIN8BCHzvo/o8ONbDGqXj+oc2bAzFhVF775V1o', '2026-11-22T19:15:02.234Z', '2026-11-22T19:15:02.234Z', DEFAULT);
INSERT INTO public.users VALUES (17, 'Jürgen 👩‍👩‍👧 Groß', 'jürgen 👩‍👩‍👧 groß', 'User16@Example.com', DEFAULT, NULL, '2026-11-22T19:15:02.266Z', '2026-11-22T19:15:02.266Z', DEFAULT);
INSERT INTO public.users VALUES (18, 'ẛtrange', 'ṡtrange', 'User17@Example.com', DEFAULT, NULL, '2026-11-22T19:15:02.283Z', '2026-11-22T19:15:02.283Z', DEFAULT);
INSERT INTO public.users VALUES (19, 'Filler 0', 'filler 0', 'f0@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.307Z', '2026-11-22T19:15:02.307Z', DEFAULT);
INSERT INTO public.users VALUES (20, 'Filler 1', 'filler 1', 'f1@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.332Z', '2026-11-22T19:15:02.332Z', DEFAULT);
INSERT INTO public.users VALUES (21, 'Filler 2', 'filler 2', 'f2@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.345Z', '2026-11-22T19:15:02.345Z', DEFAULT);
INSERT INTO public.users VALUES (22, 'Filler 3', 'filler 3', 'f3@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.369Z', '2026-11-22T19:15:02.369Z', DEFAULT);
INSERT INTO public.users VALUES (23, 'Filler 4', 'filler 4', 'f4@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.383Z', '2026-11-22T19:15:02.383Z', DEFAULT);
INSERT INTO public.users VALUES (24, 'Filler 0', 'filler 0', 'f5@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.464Z', '2026-11-22T19:15:02.464Z', DEFAULT);
INSERT INTO public.users VALUES (25, 'Filler 1', 'filler 1', 'f6@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.479Z', '2026-11-22T19:15:02.479Z', DEFAULT);
INSERT INTO public.users VALUES (26, 'Filler 2', 'filler 2', 'f7@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.495Z', '2026-11-22T19:15:02.495Z', DEFAULT);
INSERT INTO public.users VALUES (27, 'Filler 3', 'filler 3', 'f8@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.530Z', '2026-11-22T19:15:02.530Z', DEFAULT);
INSERT INTO public.users VALUES (28, 'Filler 4', 'filler 4', 'f9@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.543Z', '2026-11-22T19:15:02.543Z', DEFAULT);
INSERT INTO public.users VALUES (29, 'Filler 0', 'filler 0', 'f10@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.745Z', '2026-11-22T19:15:02.745Z', DEFAULT);
INSERT INTO public.users VALUES (32, 'Filler 3', 'filler 3', 'f13@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.808Z', '2026-11-22T19:15:02.808Z', DEFAULT);
INSERT INTO public.users VALUES (33, 'Filler 4', 'filler 4', 'f14@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.826Z', '2026-11-22T19:15:02.826Z', DEFAULT);
INSERT INTO public.users VALUES (34, 'Filler 0', 'filler 0', 'f15@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.850Z', '2026-11-22T19:15:02.850Z', DEFAULT);
INSERT INTO public.users VALUES (35, 'Filler 1', 'filler 1', 'f16@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.011Z', '2026-11-22T19:15:03.011Z', DEFAULT);
INSERT INTO public.users VALUES (36, 'Filler 2', 'filler 2', 'f17@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.015Z', '2026-11-22T19:15:03.015Z', DEFAULT);
INSERT INTO public.users VALUES (37, 'Filler 3', 'filler 3', 'f18@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.024Z', '2026-11-22T19:15:03.024Z', DEFAULT);
INSERT INTO public.users VALUES (38, 'Filler 4', 'filler 4', 'f19@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.036Z', '2026-11-22T19:15:03.036Z', DEFAULT);
INSERT INTO public.users VALUES (3, 'Łódź Ægir', 'łódź ægir', 'User2@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$lgyqrm+W7ogykGnA7yZyEA$XaJqvVHQ+mBugvDT8rjtzWGRWFH6XOy8JrzTMzX6gG0', '2026-11-22T19:15:01.840Z', '2026-11-22T19:15:03.119Z', DEFAULT);
INSERT INTO public.users VALUES (30, 'Renamed Filler', 'renamed filler', 'f11@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.763Z', '2026-11-22T19:15:03.171Z', DEFAULT);
INSERT INTO public.users VALUES (31, 'Filler 2', 'filler 2', 'moved@x.co', DEFAULT, NULL, '2026-11-22T19:15:02.779Z', '2026-11-22T19:15:03.181Z', DEFAULT);
INSERT INTO public.users VALUES (39, 'Keyed', 'keyed', 'keyed@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.255Z', '2026-11-22T19:15:03.255Z', DEFAULT);
INSERT INTO public.users VALUES (40, 'Keyed 2', 'keyed 2', 'secret@x.co', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$QKGsM8s3+YRHLoti8SPd6w$Lt0LAC4wR+JJARtPjUhKdAIGyHL9HrfnCwtkrEA88Fg', '2026-11-22T19:15:03.402Z', '2026-11-22T19:15:03.402Z', DEFAULT);
INSERT INTO public.users VALUES (41, 'Keyed 3', 'keyed 3', 'more@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.454Z', '2026-11-22T19:15:03.454Z', DEFAULT);
INSERT INTO public.users VALUES (42, 'Changed', 'changed', 'later@x.co', DEFAULT, NULL, '2026-11-22T19:15:03.479Z', '2026-11-22T19:15:03.491Z', DEFAULT);
INSERT INTO public.users VALUES (102, 'Imported 2', 'imported 2', 'argon2d@x.co', DEFAULT, '$argon2d$v=19$m=4096,t=3,p=1$Wb5bm3CFGADzJJ8ykxlqug$ECCtzA7nA3BKAVvwnbjwPwD38xJHnN6NIBpwoJVKl1E', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (101, 'Imported 1', 'imported 1', 'argon2i@x.co', DEFAULT, '$argon2i$v=19$m=4096,t=3,p=1$REHxmw7PsfxWMhlHhqAPSA$A6CKCa3EC+wirVtm9G6ljbYMpcBcG13Dp7O/TKuDZnI', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (100, 'Imported 0', 'imported 0', 'argon2id@x.co', DEFAULT, '$argon2id$v=19$m=4096,t=3,p=1$YP64Qv6QyIpMRNOodsYD2g$vcIfmwsLPmIRZ/7uSb5PFKsioPWJ6+PeYTJa1rZbAX4', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (104, 'Imported 4', 'imported 4', 'bcrypt-2y@x.co', DEFAULT, '$2y$05$XC01xZJHn/q8mfD.Q9F9POzKDGoQYACQ3qPxuyFb/9jEzOfK/G50a', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (105, 'Imported 5', 'imported 5', 'bcrypt-phc@x.co', DEFAULT, '$bcrypt$v=98$r=5$ZE23zbLJpBs+ohFAS/H/RQ$1MFIqSaCES5sRzw0HdB/lG1QhMBI72c', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (103, 'Imported 3', 'imported 3', 'bcrypt@x.co', DEFAULT, '$2y$05$XC01xZJHn/q8mfD.Q9F9POzKDGoQYACQ3qPxuyFb/9jEzOfK/G50a', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (111, 'Next', 'next', 'next@x.co', DEFAULT, NULL, '2026-11-22T19:15:05.831Z', '2026-11-22T19:15:05.831Z', DEFAULT);
INSERT INTO public.users VALUES (106, 'Imported 6', 'imported 6', 'scrypt@x.co', DEFAULT, '$scrypt$ln=12,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$Y+xqjyFpRkkvoM9MzaPUQjZ8POTFNeVfg9ZfS9uftDI', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (107, 'First', 'first', 'first@x.co', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$C+zAS6jWwc0Nx1EEcdB53g$PzUujcxsff61RMexsnv8tEt2rLIPc7SQL0Bw713hRlA', '2026-11-22T19:15:05.324Z', '2026-11-22T19:15:05.324Z', DEFAULT);
INSERT INTO public.users VALUES (108, 'Zwölf', 'zwölf', 'zwoelf@x.co', DEFAULT, NULL, '2026-11-22T19:15:05.324Z', '2026-11-22T19:15:05.324Z', DEFAULT);
INSERT INTO public.users VALUES (109, 'Quoted; "and" more', 'quoted; "and" more', 'csv1@x.co', DEFAULT, NULL, '2026-11-22T19:15:05.797Z', '2026-11-22T19:15:05.797Z', DEFAULT);
INSERT INTO public.users VALUES (110, 'Blanks', 'blanks', 'CSV3@x.co', DEFAULT, NULL, '2026-11-22T19:15:05.797Z', '2026-11-22T19:15:05.797Z', DEFAULT);

INSERT INTO public.users_summary OVERRIDING SYSTEM VALUE VALUES (1, 53, 64, 139979962045801);

SELECT pg_catalog.setval('public.users_id_seq', 112, true);

SELECT pg_catalog.setval('public.users_summary_slot_seq', 1, true);

ALTER TABLE ONLY public.ban_changes
    ADD CONSTRAINT ban_changes_primary_key PRIMARY KEY (writer);

ALTER TABLE ONLY public.bans
    ADD CONSTRAINT bans_primary_key PRIMARY KEY (key_hash);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_primary_key PRIMARY KEY (key_hash);

ALTER TABLE ONLY public.imports
    ADD CONSTRAINT imports_primary_key PRIMARY KEY (source);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_primary_key PRIMARY KEY (version);

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_primary_key PRIMARY KEY (name);

ALTER TABLE ONLY public.unfinished_copies
    ADD CONSTRAINT unfinished_copies_primary_key PRIMARY KEY (singleton);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_email_unique UNIQUE (email_lower);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_primary_key PRIMARY KEY (id);

ALTER TABLE ONLY public.users_summary
    ADD CONSTRAINT users_summary_primary_key PRIMARY KEY (slot);

CREATE INDEX bans_by_end ON public.bans USING btree (ends_at, "left"(rule, 200), "left"(client_key, 200), key_hash);

CREATE INDEX idempotency_keys_by_expiry ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX idempotency_keys_by_user ON public.idempotency_keys USING btree (user_id);

CREATE INDEX users_by_created_at ON public.users USING btree (created_at, id);

CREATE INDEX users_by_name ON public.users USING btree (name_lower, id);

CREATE INDEX users_by_updated_at ON public.users USING btree (updated_at, id);

CREATE TRIGGER bans_deleted AFTER DELETE ON public.bans REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION public.note_written_bans();

CREATE TRIGGER bans_inserted AFTER INSERT ON public.bans REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION public.note_written_bans();

CREATE TRIGGER bans_truncated AFTER TRUNCATE ON public.bans FOR EACH STATEMENT EXECUTE FUNCTION public.note_truncated_bans();

CREATE TRIGGER bans_updated AFTER UPDATE ON public.bans REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION public.note_written_bans();

CREATE TRIGGER users_deleted AFTER DELETE ON public.users REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION public.note_deleted_users();

CREATE TRIGGER users_deleted_with_answers AFTER DELETE ON public.users REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION public.forget_answers_of_deleted_users();

CREATE TRIGGER users_inserted AFTER INSERT ON public.users REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.note_inserted_users();

CREATE TRIGGER users_truncated AFTER TRUNCATE ON public.users FOR EACH STATEMENT EXECUTE FUNCTION public.note_truncated_users();

CREATE TRIGGER users_updated AFTER UPDATE ON public.users REFERENCING NEW TABLE AS updated FOR EACH STATEMENT EXECUTE FUNCTION public.note_updated_users();

