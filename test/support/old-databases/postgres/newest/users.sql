

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

CREATE FUNCTION public.note_api_key_changes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
  INSERT INTO api_key_changes (singleton, mark) VALUES (1, floor(random() * 281474976710656))
  ON CONFLICT (singleton) DO UPDATE SET mark = EXCLUDED.mark;
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
  IF rows > 0 THEN
    PERFORM note_user_changes(-rows, rows);
    DELETE FROM users_words WHERE id IN (SELECT id FROM deleted);
  END IF;
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
  IF current_setting('user_records.words', true) IS DISTINCT FROM 'written' THEN
    INSERT INTO users_without_words (id) SELECT id FROM inserted ORDER BY id ON CONFLICT DO NOTHING;
  END IF;
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
  DELETE FROM users_words;
  RETURN NULL;
END $$;

CREATE FUNCTION public.note_updated_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM (
    SELECT id, name_lower, shown FROM updated EXCEPT ALL SELECT id, name_lower, shown FROM former) AS changed);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(0, rows); END IF;
  IF rows > 0 AND current_setting('user_records.words', true) IS DISTINCT FROM 'written' THEN
    INSERT INTO users_without_words (id)
    SELECT id FROM (SELECT id, name, email FROM updated EXCEPT SELECT id, name, email FROM former) AS renamed
    ORDER BY id ON CONFLICT DO NOTHING;
  END IF;
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

CREATE TABLE public.api_key_changes (
    singleton smallint NOT NULL,
    mark bigint NOT NULL,
    CONSTRAINT api_key_changes_singleton CHECK ((singleton = 1))
);

CREATE TABLE public.api_keys (
    name text NOT NULL COLLATE pg_catalog."C",
    key_hash bytea NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint,
    CONSTRAINT api_keys_hash_length CHECK ((length(key_hash) = 32)),
    CONSTRAINT api_keys_name_chars CHECK (((length(name) >= 1) AND (length(name) <= 64))),
    CONSTRAINT api_keys_some_scopes CHECK ((scopes <> ''::text))
);

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

CREATE TABLE public.users_without_words (
    id bigint NOT NULL
);

CREATE TABLE public.users_words (
    id bigint NOT NULL,
    words tsvector NOT NULL
);

CREATE TABLE public.users_words_state (
    singleton smallint NOT NULL,
    words_version integer NOT NULL,
    indexed_through bigint,
    CONSTRAINT users_words_state_singleton CHECK ((singleton = 1))
);

INSERT INTO public.api_key_changes VALUES (1, 223084333691260);

INSERT INTO public.api_keys VALUES ('reader', '\x4f6010510b35d304d187709d77ea301bdc0a2dd21e4adc8eeac6c4ce23517775', 'users:read', 1795530926579, 1803306926579, NULL);
INSERT INTO public.api_keys VALUES ('expired', '\x41972bbdb26beefc7b79874c9a6c7ebfaa19df7ea1d1aa741533a834391adf4f', 'users:read', 1795530927803, 1795530928803, NULL);
INSERT INTO public.api_keys VALUES ('banned', '\x6a01152332a2d7d59d642c39308451b5ef9fe4879a820a5ff84dcdfcac19ebf4', 'users:read', 1795530927241, NULL, 1795530928537);
INSERT INTO public.api_keys VALUES ('writer', '\xf096e504cd69982e793db10283377ac5025aa2714e377f9f36f643c3ce48dff1', 'users:read users:write passwords:verify', 1795530926957, NULL, 1795530928516);

INSERT INTO public.ban_changes VALUES ('1f8aaa44-9576-4850-867c-47037676153e', 221518633384737, '2026-11-24 14:35:28.545614+00');
INSERT INTO public.ban_changes VALUES ('a0e5cab9-25ad-487a-a0e8-e6e2b83f1fdf', 167436108225514, '2026-11-24 14:35:31.018898+00');
INSERT INTO public.ban_changes VALUES ('5aa83571-94b9-4323-9f9f-372f97e34f5f', 98169847233164, '2026-11-24 14:35:31.401277+00');
INSERT INTO public.ban_changes VALUES ('71ec9707-fca4-41a3-b11c-8f9216504c4f', 143455158583025, '2026-11-24 14:35:31.806341+00');

INSERT INTO public.bans VALUES ('\x11bf7bc8ee72dc903568a7d1ee004ebbcaf3bf038eb863efd475b0a8d29bc806', 'key', 'banned', 1795617328538, 86400000);
INSERT INTO public.bans VALUES ('\xdb6b74c105d03b3280216698079365e0155eae997e463bf45712e437f2fe223c', 'x-client', 'mallory', 1795617330980, 86400000);
INSERT INTO public.bans VALUES ('\x9dbb17a50f4d6b7f0d248cb555e161a6c913d9cefc76d14d25c06c949c90da5a', 'x-client', 'dMEIOgm-Dn9n24qZeZ5E_cwHFP5mTLkf8veS5ZUO5JI', 1795617330997, 86400000);
INSERT INTO public.bans VALUES ('\x104ab85eef596bdac9165f885193abfbf796db377600463c3ed7db97a3d2fd3e', 'authorization', 'sha256:8554f76be1769b1a6da158f48a40546773d6ab295dbf87eea93b78c034c4b747', 1795617331003, 86400000);
INSERT INTO public.bans VALUES ('\x6c9d5b1bfef68ceca57b60fc8047e495aabccd3c2f3eac1e76f0c6c2175c4df0', 'address', '203.0.113.7', 1795617331009, 86400000);
INSERT INTO public.bans VALUES ('\x3d08f467605914b5b232cce079778a4f4d18bc1403883a453770518c2e118e7a', 'address', '2001:db8:0:100::/56', 1795617331018, 86400000);
INSERT INTO public.bans VALUES ('\x3d168e2096928fd657bcee6bbabe1fd8b051d44358fdff8737f0daef16f9d1ba', 'address', '198.51.100.9', 1795617331305, 86400000);
INSERT INTO public.bans VALUES ('\xc87653e62e97c44e62adb9415a5f71afd9588010c794887aa2c00ad81de891ef', 'authorization', 'sha256:31bc4634ca7e71292ee5e57884ac9529964b419e98c4c1d9a4c613077f9c5d79', 1795617331724, 86400000);

INSERT INTO public.idempotency_keys VALUES ('\xbfcc65c4a6ed9001fecdf2ab4cb7ffa29754940858039db4ec67294199faeeff', 39, '4a6222b0e6b605161a0ced9bf94ac475f08923d5eace1b9f69fa7615745964d4', '2026-11-24T14:35:30.888Z', '{"id":39,"name":"Keyed","email":"keyed@x.co","created_at":"2026-11-24T14:35:30.888Z","updated_at":"2026-11-24T14:35:30.888Z"}', 1795617330887);
INSERT INTO public.idempotency_keys VALUES ('\xc8e8d05ee4e858de8a2d02694994f0e13e16ddf479f847ae70cacbb44036691c', 40, '$argon2id$v=19$m=19456,t=2,p=1$xmAqhidGwsQ0uy49VzOvAA$0ZPydAU3KxHT8/N6MDD6ii5fwxkYs+IHa93jBgnLVZw', '2026-11-24T14:35:30.936Z', '{"id":40,"name":"Keyed 2","email":"secret@x.co","created_at":"2026-11-24T14:35:30.936Z","updated_at":"2026-11-24T14:35:30.936Z"}', 1795617330935);
INSERT INTO public.idempotency_keys VALUES ('\x8437d939c4682e622cc7e020efde6d527cd00b175510ae14950854a3ac9d1776', 41, '$argon2id$v=19$m=19456,t=2,p=1$Y56DRhEQx3aNbJekxwmrTA$MUN3IcsZwZ6JcAYfT3KuQ2+jTP8DhzWOpUcA2jYLoJY', '2026-11-24T14:35:30.955Z', '{"id":41,"name":"Keyed 3","email":"more@x.co","created_at":"2026-11-24T14:35:30.955Z","updated_at":"2026-11-24T14:35:30.955Z"}', 1795617330954);
INSERT INTO public.idempotency_keys VALUES ('\x04a05feb55f971b4fa84d5f0b4bc4562e6a995c29763046c389816269bf68b47', 42, '9b5a3b71718e7ea2c5195d493a947217b9d4255fded56cfff21c6e5db5d931e2', '2026-11-24T14:35:30.962Z', '{"id":42,"name":"Keyed 4","email":"later@x.co","created_at":"2026-11-24T14:35:30.962Z","updated_at":"2026-11-24T14:35:30.962Z"}', 1795617330961);
INSERT INTO public.idempotency_keys VALUES ('\xf9dbb3fef2514a45b5e1e80afe58efdd959647586b200495addd816993cca3ed', 43, NULL, NULL, NULL, 1795617330971);

INSERT INTO public.imports VALUES ('/tmp/old-database-5AUIOi/finished.ndjson', 7, '\x3bef301edcdad4d455258e2c34949b5af009645d5ed0049658dfefe1f213bea4', 0, 7, 0, 0, 0, 0, true, '2026-11-24T14:35:32.140Z');
INSERT INTO public.imports VALUES ('-', 4, '\xaa88b6187ace4fe0190a64290d32a3f1fa927fd8fe3169e5489e534b9915c0c8', 115, 2, 0, 0, 0, 2, false, '2026-11-24T14:35:32.518Z');
INSERT INTO public.imports VALUES ('/tmp/old-database-5AUIOi/conflict.csv', 3, '\x37d553270809e3c239300a5179e42707164b815ac1135154e538429b17dab9ae', 0, 2, 0, 0, 0, 1, false, '2026-11-24T14:35:32.869Z');

INSERT INTO public.schema_migrations VALUES (1, '0001_create_users', '77798d61925f144f1254429dfc436459b615f56f69e868d91b069913d54f1573', '2026-11-24T14:35:26.668Z');
INSERT INTO public.schema_migrations VALUES (2, '0002_keep_idempotency_keys', '32d8c49f401ed47d5a6ba53187016c780bb97c848aafef2896be62ff2df44d11', '2026-11-24T14:35:26.684Z');
INSERT INTO public.schema_migrations VALUES (3, '0003_keep_bans', 'cbaa2ef13e65455a59b105e876c4c5e9dd847467021f3e42c3dd1de20c130b25', '2026-11-24T14:35:26.692Z');
INSERT INTO public.schema_migrations VALUES (4, '0004_keep_signing_keys', '6321607b90791df65552d6db467114318c2d6b37bcf6fbc1a931dc1a66f8bc34', '2026-11-24T14:35:26.700Z');
INSERT INTO public.schema_migrations VALUES (5, '0005_keep_imports', 'fc8f78ea021a1587568b87fa2f25ab5535ca7ac8a811c629b3d3117f9a50eb05', '2026-11-24T14:35:26.705Z');
INSERT INTO public.schema_migrations VALUES (6, '0006_mark_copies', '22fa46b596c01ad350061aadcba95364a8d7e1b9d73750cf7d31bbdb286eff4e', '2026-11-24T14:35:26.713Z');
INSERT INTO public.schema_migrations VALUES (7, '0007_keep_api_keys', 'b75911a66c8d3d192429d020368c78f7cc1e0d63314086c017902b0f65947dfa', '2026-11-24T14:35:26.718Z');
INSERT INTO public.schema_migrations VALUES (8, '0008_ignore_replaced_digests', '1f41869aba56aada50426815439703288c2b97ef1b0abb80c59cb963d02a0e84', '2026-11-24T14:35:26.725Z');
INSERT INTO public.schema_migrations VALUES (9, '0009_index_words', 'ebb54ed861aa95103cdee38f4c63c3a511f06cc03bd6526c57abf71e80a225b0', '2026-11-24T14:35:26.729Z');

INSERT INTO public.signing_keys VALUES ('cursor', '\x2bd970b217097e7cfd13890728a393eec4c09528e5ef78a05ae1da4cef6e5836');
INSERT INTO public.signing_keys VALUES ('counters', '\x54f8019ef5c354a271dacc7789a46edc722081e9a5eb400ff0978c293d8ee029');

INSERT INTO public.users VALUES (1, 'Ada Lovelace', 'ada lovelace', 'User0@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$pmK+eiUuACT4MET4tcZOjg$6/Ls0z8F6IdVO10Sp4U7gH1GvBCIZs7wyKz3DgpcAFQ', '2026-11-24T14:35:30.573Z', '2026-11-24T14:35:30.573Z', DEFAULT);
INSERT INTO public.users VALUES (4, '王小明', '王小明', 'User3@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$4ZshPjmQtoi5nHf3iDbkKQ$sojSdCysEa6gNazyy/y0kM3xbHoHFoRROc87oaorKfo', '2026-11-24T14:35:30.612Z', '2026-11-24T14:35:30.612Z', DEFAULT);
INSERT INTO public.users VALUES (5, '김철수', '김철수', 'User4@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.620Z', '2026-11-24T14:35:30.620Z', DEFAULT);
INSERT INTO public.users VALUES (6, 'ΜΑΡΊΑ ΠΑΠΑΔΟΠΟΎΛΟΥ', 'μαρία παπαδοπούλου', 'User5@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.626Z', '2026-11-24T14:35:30.626Z', DEFAULT);
INSERT INTO public.users VALUES (7, 'µtorrent', 'μtorrent', 'User6@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$gqpLLKW450W5Wz3Hf1kjkg$NEaHz6NYFGCUVWRJG/3HLL6S/BwwK2uWWPHDawl/2YU', '2026-11-24T14:35:30.645Z', '2026-11-24T14:35:30.645Z', DEFAULT);
INSERT INTO public.users VALUES (8, 'ſam Gamgee', 'sam gamgee', 'User7@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.651Z', '2026-11-24T14:35:30.651Z', DEFAULT);
INSERT INTO public.users VALUES (9, 'Дмитрий Менделеев', 'дмитрий менделеев', 'User8@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.656Z', '2026-11-24T14:35:30.656Z', DEFAULT);
INSERT INTO public.users VALUES (10, 'שָׁלוֹם עֲלֵיכֶם', 'שָׁלוֹם עֲלֵיכֶם', 'User9@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$cLA0jlfaGPuKIWmCM2XB9g$X5Q1LrBMvszW9amiGTTw+Rb5h0uAj/nxajEVniiTZU8', '2026-11-24T14:35:30.675Z', '2026-11-24T14:35:30.675Z', DEFAULT);
INSERT INTO public.users VALUES (11, 'عَلِيّ', 'عَلِيّ', 'User10@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.682Z', '2026-11-24T14:35:30.682Z', DEFAULT);
INSERT INTO public.users VALUES (12, 'देवनागरी', 'देवनागरी', 'User11@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.686Z', '2026-11-24T14:35:30.686Z', DEFAULT);
INSERT INTO public.users VALUES (13, 'ガネーシャ', 'ガネーシャ', 'User12@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$adWO1s/7L+tj5gA7cguj0g$huzaswTxDQVJOQLYu5EPNJT6KGEAHdLgGMJRVhzBguA', '2026-11-24T14:35:30.704Z', '2026-11-24T14:35:30.704Z', DEFAULT);
INSERT INTO public.users VALUES (14, 'O''Brien "Quote" \ Backslash', 'o''brien "quote" \ backslash', 'User13@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.709Z', '2026-11-24T14:35:30.709Z', DEFAULT);
INSERT INTO public.users VALUES (15, '𝒜𝓃𝓃 Fancy', '𝒜𝓃𝓃 fancy', 'User14@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.713Z', '2026-11-24T14:35:30.713Z', DEFAULT);
INSERT INTO public.users VALUES (16, 'İstanbul', 'i̇stanbul', 'User15@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$rQFT5v8pFqq1ohmrzeoUUg$fvdeQmfFsPrsI5Mz5fzCbxSd/TttewMx2a9r211bzvE', '2026-11-24T14:35:30.734Z', '2026-11-24T14:35:30.734Z', DEFAULT);
INSERT INTO public.users VALUES (17, 'Jürgen 👩‍👩‍👧 Groß', 'jürgen 👩‍👩‍👧 groß', 'User16@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.740Z', '2026-11-24T14:35:30.740Z', DEFAULT);
INSERT INTO public.users VALUES (18, 'ẛtrange', 'ṡtrange', 'User17@Example.com', DEFAULT, NULL, '2026-11-24T14:35:30.744Z', '2026-11-24T14:35:30.744Z', DEFAULT);
INSERT INTO public.users VALUES (19, 'Filler 0', 'filler 0', 'f0@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.747Z', '2026-11-24T14:35:30.747Z', DEFAULT);
INSERT INTO public.users VALUES (20, 'Filler 1', 'filler 1', 'f1@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.751Z', '2026-11-24T14:35:30.751Z', DEFAULT);
INSERT INTO public.users VALUES (21, 'Filler 2', 'filler 2', 'f2@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.754Z', '2026-11-24T14:35:30.754Z', DEFAULT);
INSERT INTO public.users VALUES (22, 'Filler 3', 'filler 3', 'f3@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.760Z', '2026-11-24T14:35:30.760Z', DEFAULT);
INSERT INTO public.users VALUES (23, 'Filler 4', 'filler 4', 'f4@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.764Z', '2026-11-24T14:35:30.764Z', DEFAULT);
INSERT INTO public.users VALUES (24, 'Filler 0', 'filler 0', 'f5@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.768Z', '2026-11-24T14:35:30.768Z', DEFAULT);
INSERT INTO public.users VALUES (25, 'Filler 1', 'filler 1', 'f6@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.772Z', '2026-11-24T14:35:30.772Z', DEFAULT);
INSERT INTO public.users VALUES (26, 'Filler 2', 'filler 2', 'f7@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.776Z', '2026-11-24T14:35:30.776Z', DEFAULT);
INSERT INTO public.users VALUES (27, 'Filler 3', 'filler 3', 'f8@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.780Z', '2026-11-24T14:35:30.780Z', DEFAULT);
INSERT INTO public.users VALUES (28, 'Filler 4', 'filler 4', 'f9@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.785Z', '2026-11-24T14:35:30.785Z', DEFAULT);
INSERT INTO public.users VALUES (29, 'Filler 0', 'filler 0', 'f10@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.789Z', '2026-11-24T14:35:30.789Z', DEFAULT);
INSERT INTO public.users VALUES (32, 'Filler 3', 'filler 3', 'f13@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.801Z', '2026-11-24T14:35:30.801Z', DEFAULT);
INSERT INTO public.users VALUES (33, 'Filler 4', 'filler 4', 'f14@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.808Z', '2026-11-24T14:35:30.808Z', DEFAULT);
INSERT INTO public.users VALUES (34, 'Filler 0', 'filler 0', 'f15@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.812Z', '2026-11-24T14:35:30.812Z', DEFAULT);
INSERT INTO public.users VALUES (35, 'Filler 1', 'filler 1', 'f16@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.816Z', '2026-11-24T14:35:30.816Z', DEFAULT);
INSERT INTO public.users VALUES (36, 'Filler 2', 'filler 2', 'f17@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.819Z', '2026-11-24T14:35:30.819Z', DEFAULT);
INSERT INTO public.users VALUES (37, 'Filler 3', 'filler 3', 'f18@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.823Z', '2026-11-24T14:35:30.823Z', DEFAULT);
INSERT INTO public.users VALUES (38, 'Filler 4', 'filler 4', 'f19@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.826Z', '2026-11-24T14:35:30.826Z', DEFAULT);
INSERT INTO public.users VALUES (3, 'Łódź Ægir', 'łódź ægir', 'User2@Example.com', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$BJsSi6xCvzD1tzjs6fncFg$jAxsDpxZ5QPqjQxyz8gnm8ckIWN6DcIFXwOXB5YUpvU', '2026-11-24T14:35:30.593Z', '2026-11-24T14:35:30.854Z', DEFAULT);
INSERT INTO public.users VALUES (30, 'Renamed Filler', 'renamed filler', 'f11@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.792Z', '2026-11-24T14:35:30.865Z', DEFAULT);
INSERT INTO public.users VALUES (31, 'Filler 2', 'filler 2', 'moved@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.796Z', '2026-11-24T14:35:30.870Z', DEFAULT);
INSERT INTO public.users VALUES (39, 'Keyed', 'keyed', 'keyed@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.888Z', '2026-11-24T14:35:30.888Z', DEFAULT);
INSERT INTO public.users VALUES (40, 'Keyed 2', 'keyed 2', 'secret@x.co', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$QUTRC0GSl02GHr4uao3S2A$hGfU7uazBhWMl8GI/JndqlA0/SqY+TpwaROhJ5197mY', '2026-11-24T14:35:30.936Z', '2026-11-24T14:35:30.936Z', DEFAULT);
INSERT INTO public.users VALUES (41, 'Keyed 3', 'keyed 3', 'more@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.955Z', '2026-11-24T14:35:30.955Z', DEFAULT);
INSERT INTO public.users VALUES (42, 'Changed', 'changed', 'later@x.co', DEFAULT, NULL, '2026-11-24T14:35:30.962Z', '2026-11-24T14:35:30.966Z', DEFAULT);
INSERT INTO public.users VALUES (102, 'Imported 2', 'imported 2', 'argon2d@x.co', DEFAULT, '$argon2d$v=19$m=4096,t=3,p=1$GKNShfc9PXAJ1ZZkeI5nEw$sI3I6wbbe76ZR85LnKC9uhDGt8vhCRbQAHbtc3NVGxw', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (101, 'Imported 1', 'imported 1', 'argon2i@x.co', DEFAULT, '$argon2i$v=19$m=4096,t=3,p=1$o30y3Hwlnn9MHuGWoYtTOA$ISHUUtbhZu7KYx7HVblj2HDja4jvjU1Q2hLR73CX3iM', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (100, 'Imported 0', 'imported 0', 'argon2id@x.co', DEFAULT, '$argon2id$v=19$m=4096,t=3,p=1$3E8F19rp4okdplxNBc4X3w$6NcKo00EXzqN2vpvPEdb8OAhSmkEzzJTYQlilsNrrsM', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (104, 'Imported 4', 'imported 4', 'bcrypt-2y@x.co', DEFAULT, '$2y$05$soXdCSZYOSc7MosagOCQ4O3y7RJMS1zUOFt6MeOE45w8tQbER6j5G', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (105, 'Imported 5', 'imported 5', 'bcrypt-phc@x.co', DEFAULT, '$bcrypt$v=98$r=5$uqZfEUbaQUe9OquciQES6Q$509TLOU31WQHv8OgQG67y+vSdGT8l7I', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (103, 'Imported 3', 'imported 3', 'bcrypt@x.co', DEFAULT, '$2b$05$soXdCSZYOSc7MosagOCQ4O3y7RJMS1zUOFt6MeOE45w8tQbER6j5G', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (111, 'Next', 'next', 'next@x.co', DEFAULT, NULL, '2026-11-24T14:35:32.908Z', '2026-11-24T14:35:32.908Z', DEFAULT);
INSERT INTO public.users VALUES (106, 'Imported 6', 'imported 6', 'scrypt@x.co', DEFAULT, '$scrypt$ln=12,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$Y+xqjyFpRkkvoM9MzaPUQjZ8POTFNeVfg9ZfS9uftDI', '2019-05-06T07:08:09.123Z', '2020-05-06T07:08:09.456Z', DEFAULT);
INSERT INTO public.users VALUES (107, 'First', 'first', 'first@x.co', DEFAULT, '$argon2id$v=19$m=19456,t=2,p=1$yMH2YkYatba8jf4NDBZxZg$ud7iihqOqQtTnMKymACDc+GuhKLmD2puppJus167Ryw', '2026-11-24T14:35:32.513Z', '2026-11-24T14:35:32.513Z', DEFAULT);
INSERT INTO public.users VALUES (108, 'Zwölf', 'zwölf', 'zwoelf@x.co', DEFAULT, NULL, '2026-11-24T14:35:32.513Z', '2026-11-24T14:35:32.513Z', DEFAULT);
INSERT INTO public.users VALUES (109, 'Quoted; "and" more', 'quoted; "and" more', 'csv1@x.co', DEFAULT, NULL, '2026-11-24T14:35:32.865Z', '2026-11-24T14:35:32.865Z', DEFAULT);
INSERT INTO public.users VALUES (110, 'Blanks', 'blanks', 'CSV3@x.co', DEFAULT, NULL, '2026-11-24T14:35:32.865Z', '2026-11-24T14:35:32.865Z', DEFAULT);

INSERT INTO public.users_summary OVERRIDING SYSTEM VALUE VALUES (1, 53, 64, 67529117502235);

INSERT INTO public.users_words VALUES (1, '''ada'' ''com'' ''example'' ''lovelace'' ''user0''');
INSERT INTO public.users_words VALUES (3, '''aegir'' ''com'' ''example'' ''lodz'' ''user2''');
INSERT INTO public.users_words VALUES (4, '''com'' ''example'' ''user3'' ''王小明''');
INSERT INTO public.users_words VALUES (5, '''com'' ''example'' ''user4'' ''김철수''');
INSERT INTO public.users_words VALUES (6, '''com'' ''example'' ''user5'' ''μαρια'' ''παπαδοπουλου''');
INSERT INTO public.users_words VALUES (7, '''com'' ''example'' ''user6'' ''μtorrent''');
INSERT INTO public.users_words VALUES (8, '''com'' ''example'' ''gamgee'' ''sam'' ''user7''');
INSERT INTO public.users_words VALUES (9, '''com'' ''example'' ''user8'' ''дмитрии'' ''менделеев''');
INSERT INTO public.users_words VALUES (10, '''com'' ''example'' ''user9'' ''עליכם'' ''שלום''');
INSERT INTO public.users_words VALUES (11, '''com'' ''example'' ''user10'' ''علي''');
INSERT INTO public.users_words VALUES (12, '''com'' ''example'' ''user11'' ''देवनागरी''');
INSERT INTO public.users_words VALUES (13, '''com'' ''example'' ''user12'' ''ガネーシャ''');
INSERT INTO public.users_words VALUES (14, '''backslash'' ''brien'' ''com'' ''example'' ''o'' ''quote'' ''user13''');
INSERT INTO public.users_words VALUES (15, '''ann'' ''com'' ''example'' ''fancy'' ''user14''');
INSERT INTO public.users_words VALUES (16, '''com'' ''example'' ''istanbul'' ''user15''');
INSERT INTO public.users_words VALUES (17, '''com'' ''example'' ''gross'' ''jurgen'' ''user16''');
INSERT INTO public.users_words VALUES (18, '''com'' ''example'' ''strange'' ''user17''');
INSERT INTO public.users_words VALUES (19, '''0'' ''co'' ''f0'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (20, '''1'' ''co'' ''f1'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (21, '''2'' ''co'' ''f2'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (22, '''3'' ''co'' ''f3'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (23, '''4'' ''co'' ''f4'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (24, '''0'' ''co'' ''f5'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (25, '''1'' ''co'' ''f6'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (26, '''2'' ''co'' ''f7'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (27, '''3'' ''co'' ''f8'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (28, '''4'' ''co'' ''f9'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (29, '''0'' ''co'' ''f10'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (32, '''3'' ''co'' ''f13'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (33, '''4'' ''co'' ''f14'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (34, '''0'' ''co'' ''f15'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (35, '''1'' ''co'' ''f16'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (36, '''2'' ''co'' ''f17'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (37, '''3'' ''co'' ''f18'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (38, '''4'' ''co'' ''f19'' ''filler'' ''x''');
INSERT INTO public.users_words VALUES (30, '''co'' ''f11'' ''filler'' ''renamed'' ''x''');
INSERT INTO public.users_words VALUES (31, '''2'' ''co'' ''filler'' ''moved'' ''x''');
INSERT INTO public.users_words VALUES (39, '''co'' ''keyed'' ''x''');
INSERT INTO public.users_words VALUES (40, '''2'' ''co'' ''keyed'' ''secret'' ''x''');
INSERT INTO public.users_words VALUES (41, '''3'' ''co'' ''keyed'' ''more'' ''x''');
INSERT INTO public.users_words VALUES (42, '''changed'' ''co'' ''later'' ''x''');
INSERT INTO public.users_words VALUES (100, '''0'' ''argon2id'' ''co'' ''imported'' ''x''');
INSERT INTO public.users_words VALUES (101, '''1'' ''argon2i'' ''co'' ''imported'' ''x''');
INSERT INTO public.users_words VALUES (102, '''2'' ''argon2d'' ''co'' ''imported'' ''x''');
INSERT INTO public.users_words VALUES (103, '''3'' ''bcrypt'' ''co'' ''imported'' ''x''');
INSERT INTO public.users_words VALUES (104, '''2y'' ''4'' ''bcrypt'' ''co'' ''imported'' ''x''');
INSERT INTO public.users_words VALUES (105, '''5'' ''bcrypt'' ''co'' ''imported'' ''phc'' ''x''');
INSERT INTO public.users_words VALUES (106, '''6'' ''co'' ''imported'' ''scrypt'' ''x''');
INSERT INTO public.users_words VALUES (107, '''co'' ''first'' ''x''');
INSERT INTO public.users_words VALUES (108, '''co'' ''x'' ''zwoelf'' ''zwolf''');
INSERT INTO public.users_words VALUES (109, '''and'' ''co'' ''csv1'' ''more'' ''quoted'' ''x''');
INSERT INTO public.users_words VALUES (110, '''blanks'' ''co'' ''csv3'' ''x''');
INSERT INTO public.users_words VALUES (111, '''co'' ''next'' ''x''');

INSERT INTO public.users_words_state VALUES (1, 1, NULL);

SELECT pg_catalog.setval('public.users_id_seq', 112, true);

SELECT pg_catalog.setval('public.users_summary_slot_seq', 1, true);

ALTER TABLE ONLY public.api_key_changes
    ADD CONSTRAINT api_key_changes_primary_key PRIMARY KEY (singleton);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_hash_unique UNIQUE (key_hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_primary_key PRIMARY KEY (name);

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

ALTER TABLE ONLY public.users_without_words
    ADD CONSTRAINT users_without_words_primary_key PRIMARY KEY (id);

ALTER TABLE ONLY public.users_words
    ADD CONSTRAINT users_words_primary_key PRIMARY KEY (id);

ALTER TABLE ONLY public.users_words_state
    ADD CONSTRAINT users_words_state_primary_key PRIMARY KEY (singleton);

CREATE INDEX bans_by_end ON public.bans USING btree (ends_at, "left"(rule, 200), "left"(client_key, 200), key_hash);

CREATE INDEX idempotency_keys_by_expiry ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX idempotency_keys_by_user ON public.idempotency_keys USING btree (user_id);

CREATE INDEX users_by_created_at ON public.users USING btree (created_at, id);

CREATE INDEX users_by_name ON public.users USING btree (name_lower, id);

CREATE INDEX users_by_updated_at ON public.users USING btree (updated_at, id);

CREATE INDEX users_words_by_word ON public.users_words USING gin (words) WITH (gin_pending_list_limit='128');

CREATE TRIGGER api_keys_changed AFTER INSERT OR DELETE OR UPDATE OF name, key_hash, scopes, created_at, expires_at OR TRUNCATE ON public.api_keys FOR EACH STATEMENT EXECUTE FUNCTION public.note_api_key_changes();

CREATE TRIGGER bans_deleted AFTER DELETE ON public.bans REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION public.note_written_bans();

CREATE TRIGGER bans_inserted AFTER INSERT ON public.bans REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION public.note_written_bans();

CREATE TRIGGER bans_truncated AFTER TRUNCATE ON public.bans FOR EACH STATEMENT EXECUTE FUNCTION public.note_truncated_bans();

CREATE TRIGGER bans_updated AFTER UPDATE ON public.bans REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION public.note_written_bans();

CREATE TRIGGER users_deleted AFTER DELETE ON public.users REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION public.note_deleted_users();

CREATE TRIGGER users_deleted_with_answers AFTER DELETE ON public.users REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION public.forget_answers_of_deleted_users();

CREATE TRIGGER users_inserted AFTER INSERT ON public.users REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.note_inserted_users();

CREATE TRIGGER users_truncated AFTER TRUNCATE ON public.users FOR EACH STATEMENT EXECUTE FUNCTION public.note_truncated_users();

CREATE TRIGGER users_updated AFTER UPDATE ON public.users REFERENCING OLD TABLE AS former NEW TABLE AS updated FOR EACH STATEMENT EXECUTE FUNCTION public.note_updated_users();

